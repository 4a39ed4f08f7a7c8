"""Mutated URDF: every description is read, or refused as a LiebodyError.

Mutations know the structure: attributes and elements are removed, doubled, exchanged, renamed, nested, and
numbers replaced; now and then bytes are.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

from campaign import main

import liebody as lb
from liebody.base.errors import LiebodyError

CORPUS = Path(__file__).parent / "corpus"
WORDS = ["", "0", "-1", "1e999", "nan", "inf", "1 2", "1 2 3", "x", "revolute", "0 0 0", "-0", "1e-320"]
WORDS += ["9" * 400, "\uff11"]
ROBOT = """<robot name="r">
<link name="a"/>
<link name="b"><inertial><origin xyz="0 0 1" rpy="0 0.1 0"/><mass value="2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
<visual><geometry><box size="1 1 1"/></geometry>
<material name="m"><color rgba="1 0 0 1"/></material></visual></link>
<link name="c"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="9" velocity="9"/><dynamics damping="0.1" friction="0.2"/></joint>
<joint name="k" type="prismatic"><parent link="b"/><child link="c"/><origin xyz="0 0 1"/><axis xyz="1 0 0"/>
<limit lower="0" upper="1" effort="1" velocity="1"/><mimic joint="j" multiplier="2" offset="0.1"/></joint>
</robot>"""


def case(random) -> None:
    root = ElementTree.fromstring(ROBOT)
    for _ in range(random.choice([1, 1, 2, 4])):
        elements = list(root.iter())
        element, other = random.choice(elements), random.choice(elements)
        kind = random.randrange(7)
        if kind == 0 and element.attrib:
            del element.attrib[random.choice(list(element.attrib))]
        elif kind == 1 and element.attrib:
            element.set(random.choice(list(element.attrib)), random.choice(WORDS))
        elif kind == 2 and len(element):
            element.remove(random.choice(list(element)))
        elif kind == 3 and element is not root:
            other.append(ElementTree.fromstring(ElementTree.tostring(element)))
        elif kind == 4:
            element.tag = other.tag
        elif kind == 5 and element.attrib and other.attrib:
            element.set(random.choice(list(other.attrib)), random.choice(list(other.attrib.values())))
        else:
            element.text = random.choice(WORDS)
    text = ElementTree.tostring(root, encoding="unicode")
    if random.random() < 0.2:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(["", "<", "&", "\0", "]]>", "<!--", text[:at]]) + text[at + 1 :]
    read(text, floating=random.random() < 0.3)


def read(text: str, floating: bool = False) -> None:
    """Read a description; errors that are ours are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            lb.load(text, floating=floating)
        except LiebodyError:
            pass


if __name__ == "__main__":
    main(case)
