"""liebody in the hands of other libraries. The modules:

jax  functions and simulations as calls within JAX
gym  environments of Gymnasium
"""
