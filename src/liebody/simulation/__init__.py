"""Simulations of all that moves. The modules:

setup             the parts of a simulation from a mechanism, a method, states, efforts and parameters
simulate          `simulate`
stepper           `stepper`: one interval after the other
step_derivatives  derivatives of steps, along the group
sensitivities     `sensitivities`: tangents and adjoints through a simulation
linearize         `linearize` at a state, `lqr`
symmetries        `symmetries`: conserved momenta of a mechanism
"""
