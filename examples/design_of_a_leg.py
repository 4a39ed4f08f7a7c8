"""Two legs are designed: masses, lengths, springs and gains with which they hop further, for less work.

The legs are those of Feurstein's thesis, with a knee and with a slide. Their masses and the length of their
links are symbols of the tree, so all designs share compiled code. From the thesis' gaits on, `gaits.design`
looks for longer hops at a lower cost of transport. Each gait has to be stable by itself: its multipliers
stay below 0.9. Its foot touches the floor at most six times in a hop: without this limit the search finds
gaits whose foot chatters on the floor, hundreds of times. The result is a Pareto front for each leg.

    python examples/design_of_a_leg.py legs.png
"""

import sys

import sympy

import liebody as lb
from liebody.contact import Contact
from liebody.gaits import cost_of_transport, design, largest_multiplier, periodic_orbit
from liebody.hybrid import Apex, Fall, PolarSpring, controller_2, robot_system

STEPS = {"step": 4e-4, "stance_step": 2e-5, "landing_step": 4e-6, "landing": 2e-4}
ALONG = [[0.0, 1.0, 0.0, 0.0]]  # where the robot is along the floor does not matter
WORK = 0.842  # share of the work at first that a co-designed five-bar leg takes (arXiv 2604.06025)


def with_a_knee():
    """The gait of experiment VI, and what may change. [kg, m, N/m, J, N m/rad, N s/m, rad]"""
    symbols = sympy.symbols("base_mass thigh_mass shank_mass link")
    own = {"base_mass": 0.835, "thigh_mass": 0.122, "shank_mass": 0.050, "link": 0.12}
    robot = lb.models.revolute_hopper(masses=symbols[:3], length=symbols[3]).with_parameters(own)
    controller = controller_2("foot", K_r=2200, r_des=0.1410659, D_r=20, K_p=6, K_E=10, E_des=2.8382)
    free = {
        "base_mass": (0.75, 0.95), "thigh_mass": (0.06, 0.15), "shank_mass": (0.025, 0.08),
        "link": (0.10, 0.15), "K_r": (1500, 3500), "r_des": (0.12, 0.18), "E_des": (2.2, 3.6),
        "K_p": (4, 9), "D_r": (5, 40), "alpha_des": (-0.2, 0.2),
    }  # fmt: skip
    q0, v0 = [-2.5243, 0.0, 0.2574, 1.7802], [0.3301, -0.1919, 0.1263, 0.0]
    return gait_of(robot, [controller], q0, v0, period=0.372), free


def with_a_slide():
    """A gait with a second polar spring, which places the foot in flight, and what may change."""
    symbols = sympy.symbols("base_mass foot_mass")
    own = {"base_mass": 0.957, "foot_mass": 0.050}
    robot = lb.models.prismatic_hopper(masses=symbols).with_parameters(own)
    controller = controller_2("foot", K_r=2200, r_des=0.1140417, K_p=6, K_E=20, E_des=2.904741)
    swing = PolarSpring("foot", K_p=1.0, D_p=0.052, alpha_des=0.3, acts="flight", name="swing")
    free = {
        "base_mass": (0.85, 1.05), "foot_mass": (0.03, 0.08), "K_r": (1500, 3500), "r_des": (0.10, 0.13),
        "E_des": (2.4, 3.4), "K_p": (4, 12), "swing_K_p": (0.5, 2.0), "swing_D_p": (0.03, 0.08),
        "swing_alpha_des": (0.2, 0.45),
    }  # fmt: skip
    q0, v0 = [-1.27519817, 0.0, 0.27519645, 0.1115494], [0.16331527, 0.07400796, 0.46886091, 1.39056408]
    return gait_of(robot, [controller, swing], q0, v0, period=0.434), free


def gait_of(robot, controllers, q0, v0, period):
    """The orbit from apex to apex."""
    floor = Contact("foot", settling=0.05, corners=True)  # derivatives need corners of the force as events
    system = robot_system(robot, *controllers, floor, Apex(), Fall(0.03), ledger=False)
    return periodic_orbit(system, q0, v0, period=period, section="apex", symmetries=ALONG, parameters=STEPS)


def back(gait):
    """The length of a hop [m]; negative, because the least objective is the best."""
    return -float(gait.shift[0])


def touches(gait):
    """How often the foot touches down in one hop."""
    return gait.events.count(("floor_foot", -1))


def work(design):
    """Positive work of the drives in one hop [J]."""
    gait = design.orbit
    parameters = {**gait.system.parameters.defaults, **gait.parameters}
    mass = sum(x for name, x in parameters.items() if name.endswith("_mass"))
    return float(design.objectives["cost"] * mass * 9.81 * abs(gait.shift[0]))


LIMITS = {"multiplier": (largest_multiplier, None, 0.9), "touches": (touches, 1, 6)}
LEGS = {"a knee": with_a_knee, "a slide": with_a_slide}


def main(picture=None, generations=16, population=12, legs=tuple(LEGS)):
    found = {}
    for name in legs:
        gait, free = LEGS[name]()
        found[name] = design(
            gait, free, {"back": back, "cost": cost_of_transport}, limits=LIMITS, generations=generations,
            population=population, spread=0.05,
        )  # fmt: skip
        report(name, found[name])
    if picture:
        draw(found, picture)
    return found


def report(name, designs):
    """Print the front's ends, and the longest hop that takes as much less work as the five-bar leg did."""
    first = designs.tried[0]
    print(f"with {name}: {designs}")
    print(f"  at first: a hop of {-first.objectives['back']:.4f} m takes {work(first):.3f} J")
    frugal = [x for x in designs.feasible if work(x) <= WORK * work(first)]
    chosen = {"longest hop": designs.least("back"), "least cost": designs.least("cost")}
    if frugal:
        chosen["longest hop with 16 % less work"] = min(frugal, key=lambda x: x.objectives["back"])
    for words, x in chosen.items():
        length, cost = (x.objectives[key] / first.objectives[key] - 1 for key in ("back", "cost"))
        print(f"  {words}: {100 * length:+.0f} % length, {100 * (work(x) / work(first) - 1):+.0f} % work, "
              f"{100 * cost:+.0f} % cost, multiplier {x.limited['multiplier']:.3f}")  # fmt: skip
        print("   ", ", ".join(f"{key} {value:.4g}" for key, value in x.values.items()))


def draw(found, picture):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    for axis, (name, designs) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items()):
        stable = [x.objectives for x in designs.feasible]
        front = [x.objectives for x in designs.front]
        first = designs.tried[0].objectives
        axis.plot([-x["back"] for x in stable], [x["cost"] for x in stable], ".", color="#9db7d4")
        axis.plot([-x["back"] for x in front], [x["cost"] for x in front], "o-", color="#d55e00", ms=4, lw=1)
        axis.plot(-first["back"], first["cost"], "k*", ms=11)
        axis.set(xlim=(0, None), ylim=(0, 2 * first["cost"]))  # hops on the spot cost the most
        axis.set_title(f"a leg with {name}", fontsize=10)
        axis.set_xlabel("length of a hop [m]")
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("cost of transport")
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:2])
