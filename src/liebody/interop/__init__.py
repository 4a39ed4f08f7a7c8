"""liebody in the hands of other libraries. The modules:

jax     functions and simulations as calls within JAX
torch   functions as calls within PyTorch, on CUDA devices
gym     environments of Gymnasium
tasks   tasks of environments: `DecisionProcess`, `Episode`, `TaskState`
walker  the task of a legged robot, `Walker`
"""
