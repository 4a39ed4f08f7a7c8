"""Rigid-body algorithms on flat q, v, without batch axes, over any scalar: written once, then traced."""

from .coriolis import (
    christoffel_symbols,
    coriolis_matrix,
    coriolis_transpose_times,
    mass_and_coriolis,
    mass_matrix_derivative,
    passive_inverse_dynamics,
)
from .energy import (
    center_of_mass,
    center_of_mass_jacobian,
    center_of_mass_velocity,
    kinetic_energy,
    potential_energy,
)
from .factorization import (
    Factorization,
    factorization,
    jacobian_mass_matrix,
    jacobian_mass_matrix_derivative,
)
from .forward import articulated_body, forward_dynamics
from .inverse import FREE_FALL, bias_forces, gravity_forces, inverse_dynamics
from .kinematics import (
    body_poses,
    body_twists,
    frame_acceleration,
    frame_jacobian,
    frame_jacobian_rate,
    frame_pose,
    frame_twist,
)
from .mass import mass_matrix
from .regressor import (
    BaseParameters,
    base_parameters,
    inertial_parameters,
    inverse_dynamics_regressor,
    passive_regressor,
)
from .rigid_body import (
    BoltzmannHamel,
    RigidBody,
    SelectedMotions,
    ellipsoid_added_mass,
    exponential_transformation,
    roll_pitch_yaw_transformation,
    structure_constants,
)

__all__ = [
    "FREE_FALL",
    "BaseParameters",
    "BoltzmannHamel",
    "Factorization",
    "RigidBody",
    "SelectedMotions",
    "articulated_body",
    "base_parameters",
    "bias_forces",
    "body_poses",
    "body_twists",
    "center_of_mass",
    "center_of_mass_jacobian",
    "center_of_mass_velocity",
    "christoffel_symbols",
    "coriolis_matrix",
    "coriolis_transpose_times",
    "ellipsoid_added_mass",
    "exponential_transformation",
    "factorization",
    "forward_dynamics",
    "frame_acceleration",
    "frame_jacobian",
    "frame_jacobian_rate",
    "frame_pose",
    "frame_twist",
    "gravity_forces",
    "inertial_parameters",
    "inverse_dynamics",
    "inverse_dynamics_regressor",
    "jacobian_mass_matrix",
    "jacobian_mass_matrix_derivative",
    "kinetic_energy",
    "mass_and_coriolis",
    "mass_matrix",
    "mass_matrix_derivative",
    "passive_inverse_dynamics",
    "passive_regressor",
    "potential_energy",
    "roll_pitch_yaw_transformation",
    "structure_constants",
]
