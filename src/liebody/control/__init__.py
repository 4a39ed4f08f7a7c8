"""Control: poses that are to be reached, and motions of least cost. The modules:

inverse_kinematics  configurations that reach poses
optimal/            optimal control and model predictive control
"""
