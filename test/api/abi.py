# SPDX-License-Identifier: BSD-3-Clause
"""Compares the library's binary interface with that of version 0.2, both as recorded by abidw.

    abi.py FROZEN NOW

A change breaks compiled programs if it removes or changes a function, a constant or a field, moves
a field, or enlarges a structure that has no field for its size.  The test then plants such breaks
in copies of the record and must find each of them."""
import copy
import sys
import xml.etree.ElementTree as ET

# Structures that may grow without a field `size`, because only the library allocates them.
GROW = {"limber_cache_entry", "limber_part"}


def name_of(types, key, depth=0):
    """Names a type as text; the target of a pointer is compared where it is declared."""
    node = types.get(key)
    if node is None or depth > 8:
        return "?"
    to = node.get("type-id")
    if node.tag == "pointer-type-def":
        return name_of(types, to, depth + 1) + "*"
    if node.tag == "qualified-type-def":
        return ("const " if node.get("const") else "") + name_of(types, to, depth + 1)
    if node.tag == "array-type-def":
        return f"{name_of(types, to, depth + 1)}[{node.get('size-in-bits')}]"
    if node.tag == "function-type":
        return "function" + signature(types, node, depth + 1)
    return node.get("name") or node.tag


def signature(types, node, depth=0):
    """Returns a function's type as text: "(parameters) -> result"."""
    given = [name_of(types, p.get("type-id"), depth) for p in node.findall("parameter")]
    result = node.find("return")
    return f"({', '.join(given)}) -> {name_of(types, result.get('type-id'), depth)}"


def read(root):
    """Returns three dictionaries by name: functions' signatures, structures' fields, enumerators'
    values."""
    types = {node.get("id"): node for node in root.iter() if node.get("id")}
    functions, structures, constants = {}, {}, {}
    for node in root.iter("function-decl"):
        functions[node.get("name")] = signature(types, node)
    for node in root.iter("class-decl"):
        fields = [(m.get("layout-offset-in-bits"), m[0].get("name"),
                   name_of(types, m[0].get("type-id"))) for m in node.findall("data-member")]
        if fields and node.get("name"):
            structures[node.get("name")] = fields
    for node in root.iter("enumerator"):
        constants[node.get("name")] = node.get("value")
    return functions, structures, constants


def breaks(frozen, now):
    """Lists the incompatible changes from the frozen interface to the current one."""
    then, here = read(frozen), read(now)
    found = [f"function {n}: {s}, now {here[0].get(n)}"
             for n, s in then[0].items() if here[0].get(n) != s]
    found += [f"constant {n}: {v}, now {here[2].get(n)}"
              for n, v in then[2].items() if here[2].get(n) != v]
    for name, fields in then[1].items():
        new = here[1].get(name, [])
        grows = fields[0][1] in ("size", "part_size") or name in GROW
        if new[:len(fields)] != fields:
            found.append(f"structure {name}: {fields}, now {new}")
        elif len(new) > len(fields) and not grows:
            found.append(f"structure {name}: it has no size, and has grown: {new[len(fields):]}")
    return found


def structure(root, name):
    """The complete declaration of a structure in libabigail's XML; others of it are forward
    declarations."""
    return next(n for n in root.iter("class-decl") if n.get("name") == name and len(n))


def swapped(root):
    """Plants a change: exchanges two fields of limber_queue."""
    fields = structure(root, "limber_queue").findall("data-member")
    fields[1][0].attrib, fields[2][0].attrib = fields[2][0].attrib, fields[1][0].attrib


def inserted(root):
    """Plants a change: a new field in the middle of limber_queue."""
    fields = structure(root, "limber_queue")
    new = copy.deepcopy(fields[1])
    new[0].set("name", "planted")
    fields.insert(1, new)


def appended(root, name="limber_queue"):
    """Appends a field to a structure; compatible if the structure states its size."""
    fields = structure(root, name)
    new = copy.deepcopy(fields[-1])
    new[0].set("name", "planted")
    fields.append(new)


def grown(root):
    """Plants a change: a new field in a structure without a size."""
    appended(root, "limber_matrix")


def renumbered(root):
    """Plants a change: another value of an enumerator."""
    next(n for n in root.iter("enumerator")
         if n.get("name") == "LIMBER_STATUS_RANGE").set("value", "77")


def other_parameter(root):
    """Plants a change: limber_run lacks its last parameter."""
    f = next(n for n in root.iter("function-decl") if n.get("name") == "limber_run")
    f.remove(f.findall("parameter")[-1])


def gone(root):
    """Plants a change: limber_run is missing."""
    for parent in root.iter():
        for node in list(parent):
            if node.tag == "function-decl" and node.get("name") == "limber_run":
                parent.remove(node)


def main():
    frozen, now = (ET.parse(path).getroot() for path in sys.argv[1:3])
    found = breaks(frozen, now)
    functions, structures, constants = read(frozen)
    for plant in (swapped, inserted, grown, renumbered, other_parameter, gone):
        broken = copy.deepcopy(now)
        plant(broken)
        if not breaks(now, broken):
            found.append(f"a planted break is not found: {plant.__name__}")
    longer = copy.deepcopy(now)
    appended(longer)
    found += [f"an appended field is no break: {b}" for b in breaks(now, longer)]
    print(*found, sep="\n")
    print(f"{len(functions)} functions, {len(structures)} structures, {len(constants)} constants: "
          f"{len(found)} breaks")
    return bool(found) or len(functions) < 40 or len(structures) < 15


if __name__ == "__main__":
    sys.exit(main())
