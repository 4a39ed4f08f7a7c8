"""What may change when, of every public name: the packages that have public names, and their tiers.

stable        changes only after one minor version in which the old form works and warns
provisional   new: may change in a minor version, with a line in the changelog
internal      for programs that extend liebody: may change in any version

An entry is the path of a name or package without "liebody."; the longest that begins a path decides. What has
no entry is stable. tests/signatures.txt is written from this list, too.
"""

PACKAGES = (
    "liebody",
    *(
        f"liebody.{name}"
        for name in (
            "robot bodies groups dynamics integrators mechanisms mechanisms.constrained runs hybrid contact "
            "simulation control control.optimal gaits identification symbolic sweep models io view compiler "
            "stepping scalars base.errors"
        ).split()
    ),
)

PROVISIONAL = """
export_cuda export_fmu export_warp
enclose Enclosure EnclosureError
control.InvariantFilter control.FilterNoise control.FilterState
control.WholeBody control.WholeBodyCommand control.ActiveSetCommand control.ClosedBodyCommand
control.ClosedActiveSetCommand
control.WholeBodyElement control.MotionTask control.Support hybrid.KernelCall
control.Clearance control.DifferentialIK control.Reached control.VelocityCommand
control.QuadraticProgram control.QuadraticSolution
io.InaccurateFloats
gaits.Certificate gaits.ProofError gaits.prove gaits.prove_field
gaits.ProvedBasin gaits.ProvedBifurcation gaits.prove_basin gaits.prove_flip gaits.prove_fold
gaits.Design gaits.Designs gaits.design
identification
groups.group_named bodies.joint_named mechanisms.force_named mechanisms.Forces
compiler.Expr compiler.Graph compiler.Program compiler.Foreign compiler.ForeignCall
compiler.ForeignDeviceCall
compiler.to_casadi_external compiler.DeviceKernel compiler.DeviceMarch robot.RobotOnDevice
hybrid.DeviceIntervals
""".split()

INTERNAL = """
compiler stepping
robot.PARAMETERS robot.kernels_of
integrators.StageTangents integrators.StateTangents integrators.any_method integrators.differentiated
integrators.is_mechanical integrators.mechanical_method integrators.method_named
mechanisms.forces_of
simulation.is_sampled simulation.mechanism_of simulation.states_of
hybrid.ExtendedSystem
io.COARSE io.Difference io.ExportedPart io.LEAST_FLOAT io.c_comment io.c_prefix io.host_library
io.is_single io.warn_if_coarse io.write_c
base.errors.handlers_of base.errors.pass_on_signals base.errors.suppress
base.errors.require base.errors.warn base.errors.known base.errors.counted base.errors.positive
""".split()

STABLE = """
compiler.Function compiler.Kernel compiler.trace compiler.traced compiler.repeated
compiler.jacobian compiler.hessian compiler.jvp compiler.vjp compiler.hvp
compiler.to_casadi compiler.to_sympy
""".split()

TIERS = {"stable": STABLE, "provisional": PROVISIONAL, "internal": INTERNAL}


def tier(path: str) -> str:
    """The tier of a public name by its path, as "liebody.gaits.prove"; of a package likewise."""
    rest = path.removeprefix("liebody.")
    while rest:
        for name, entries in TIERS.items():
            if rest in entries:
                return name
        rest = rest.rpartition(".")[0]
    return "stable"
