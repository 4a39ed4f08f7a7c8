"""The table of algorithms: a line for each quantity that robots compute.

A line names the function of `dynamics` that computes it. The method of robots has its arguments, options and
docstring; kernels, C source and names on the command line follow from the table, too (`Algorithm`).
Editors and type checkers read table.pyi, which `python -m liebody.robot.reference` writes.
"""

from .. import dynamics
from ..dynamics.derivatives import LONG, derivatives_by_columns
from ..dynamics.regressor import regressor_by_blocks
from .algorithm import Algorithm


class Algorithms:
    """The methods of robots that evaluate one algorithm."""

    # -- the configuration group --------------------------------------------------------------------------
    normalize = Algorithm(dynamics.normalize, unit=False)
    integrate = Algorithm(dynamics.integrate)
    difference = Algorithm(dynamics.difference)
    interpolate = Algorithm(dynamics.interpolate)

    # -- the equations of motion --------------------------------------------------------------------------
    inverse_dynamics = Algorithm(dynamics.inverse_dynamics)
    joint_wrenches = Algorithm(dynamics.joint_wrenches)
    forward_dynamics = Algorithm(dynamics.forward_dynamics)
    mass_matrix = Algorithm(dynamics.mass_matrix)
    bias = Algorithm(dynamics.bias_forces)
    gravity = Algorithm(dynamics.gravity_forces)
    kinetic_energy = Algorithm(dynamics.kinetic_energy)
    potential_energy = Algorithm(dynamics.potential_energy)

    # -- Hamilton's equations -----------------------------------------------------------------------------
    legendre_transform = Algorithm(dynamics.legendre_transform)
    inverse_legendre_transform = Algorithm(dynamics.inverse_legendre_transform)
    hamiltonian = Algorithm(dynamics.hamiltonian)
    hamiltonian_dynamics = Algorithm(dynamics.hamiltonian_dynamics)

    # -- Coriolis matrices, and what controllers build from them ------------------------------------------
    coriolis_matrix = Algorithm(dynamics.coriolis_matrix)
    mass_matrix_derivative = Algorithm(dynamics.mass_matrix_derivative)
    mass_and_coriolis = Algorithm(dynamics.mass_and_coriolis)
    christoffel_symbols = Algorithm(dynamics.christoffel_symbols)
    passive_inverse_dynamics = Algorithm(dynamics.passive_inverse_dynamics)
    coriolis_transpose_times = Algorithm(dynamics.coriolis_transpose_times)
    inverse_dynamics_regressor = Algorithm(dynamics.inverse_dynamics_regressor, regressor_by_blocks)
    passive_regressor = Algorithm(dynamics.passive_regressor, regressor_by_blocks)

    # -- external and internal motion of floating robots --------------------------------------------------
    decoupling_transform = Algorithm(dynamics.decoupling_transform)
    decoupling_transform_inverse = Algorithm(dynamics.decoupling_transform_inverse)
    decoupling_transform_rate = Algorithm(dynamics.decoupling_transform_rate)
    decoupled_velocity = Algorithm(dynamics.decoupled_velocity)
    velocity_from_decoupled = Algorithm(dynamics.velocity_from_decoupled)
    decoupled_efforts = Algorithm(dynamics.decoupled_efforts)
    efforts_from_decoupled = Algorithm(dynamics.efforts_from_decoupled)
    transformed_dynamics = Algorithm(dynamics.transformed_dynamics)
    decoupled_dynamics = Algorithm(dynamics.decoupled_dynamics)
    internal_inertia = Algorithm(dynamics.internal_inertia)
    internal_jacobian = Algorithm(dynamics.internal_jacobian)
    internal_jacobian_rate = Algorithm(dynamics.internal_jacobian_rate)
    external_jacobian = Algorithm(dynamics.external_jacobian)
    external_internal_velocity = Algorithm(dynamics.external_internal_velocity)

    # -- momentum, and floating bases ---------------------------------------------------------------------
    momentum = Algorithm(dynamics.total_momentum)
    centroidal_momentum = Algorithm(dynamics.centroidal_momentum)
    centroidal_momentum_matrix = Algorithm(dynamics.centroidal_momentum_matrix)
    centroidal_momentum_matrix_derivative = Algorithm(dynamics.centroidal_momentum_matrix_derivative)
    centroidal_momentum_bias = Algorithm(dynamics.centroidal_momentum_bias)
    centroidal_momentum_rate = Algorithm(dynamics.centroidal_momentum_rate)
    centroidal_inertia = Algorithm(dynamics.centroidal_inertia)
    centroidal_velocity = Algorithm(dynamics.centroidal_velocity)
    base_momentum = Algorithm(dynamics.base_momentum)
    locked_inertia = Algorithm(dynamics.locked_inertia)
    locked_velocity = Algorithm(dynamics.locked_velocity)
    mechanical_connection = Algorithm(dynamics.mechanical_connection)
    connection_curvature = Algorithm(dynamics.connection_curvature)
    locked_inertia_derivative = Algorithm(dynamics.locked_inertia_derivative)

    # -- derivatives --------------------------------------------------------------------------------------
    inverse_dynamics_derivatives = Algorithm(dynamics.inverse_dynamics_derivatives, least=LONG)
    forward_dynamics_derivatives = Algorithm(dynamics.forward_dynamics_derivatives, derivatives_by_columns)

    # -- kinematics ---------------------------------------------------------------------------------------
    poses = Algorithm(dynamics.body_poses)
    twists = Algorithm(dynamics.body_twists)
    pose = Algorithm(dynamics.frame_pose)
    twist = Algorithm(dynamics.frame_twist)
    jacobian = Algorithm(dynamics.frame_jacobian)
    jacobian_rate = Algorithm(dynamics.frame_jacobian_rate)
    acceleration = Algorithm(dynamics.frame_acceleration)
    center_of_mass = Algorithm(dynamics.center_of_mass)
    center_of_mass_jacobian = Algorithm(dynamics.center_of_mass_jacobian)
