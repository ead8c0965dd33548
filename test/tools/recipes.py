# SPDX-License-Identifier: BSD-3-Clause
"""Packages' recipes against what they describe: recipes.py spack|conda SOURCE.

spack   the recipe is run with stand-ins for Spack's directives; the options that it gives CMake
        are those of CMakeLists.txt, for every choice of its variants
conda   rattler-build reads and renders the recipe; its options are CMake's, too"""
import itertools
import re
import sys
import types
from contextlib import contextmanager

what, source = sys.argv[1:]
with open(f"{source}/CMakeLists.txt", encoding="utf-8") as file:
    OPTIONS = set(re.findall(r"^(?:option|set)\((LIMBER_\w+) ", file.read(), re.M))


def check_options(names):
    """Checks that CMakeLists.txt has these options."""
    unknown = set(names) - OPTIONS
    assert not unknown, f"CMakeLists.txt has no {', '.join(sorted(unknown))}"


class Version(str):
    """Stands for Spack's class: a version with its parts."""
    def up_to(self, parts):
        """As Spack's Version.up_to."""
        return ".".join(self.split(".")[:parts])


class Spec:
    """Stands for Spack's class: a chosen set of variants."""
    def __init__(self, choice):
        self.choice = choice

    def satisfies(self, text):
        """Whether a variant is on ("+name") or off ("~name")."""
        assert text[0] in "+~" and text[1:] in self.choice, f"{text} is no variant"
        return self.choice[text[1:]] == (text[0] == "+")

    def __getitem__(self, name):
        return types.SimpleNamespace(version=Version("19.1.7"))


class CMakePackage:
    """Stands for Spack's base class of packages that are built by CMake."""
    def define(self, name, value):
        return name, value

    def define_from_variant(self, name, variant):
        return name, self.spec.choice[variant]


def spack():
    """Executes the Spack recipe with stand-ins for Spack's functions, and checks the options that
    it passes."""
    variants, seen = {}, []

    def depends_on(spec, **options):
        """Spack's depends_on: checks its arguments, and records the package."""
        assert re.match(r"[a-z][\w-]*(@[\d.:]+)?:? ?(\+\w+)?$", spec), spec
        assert set(options) <= {"type", "when"}, options
        for kind in options.get("type", ()) if not isinstance(options.get("type"), str) \
                else [options["type"]]:
            assert kind in ("build", "link", "run", "test"), kind
        seen.append((spec.partition("@")[0], options.get("when")))

    @contextmanager
    def when(spec):
        assert spec[1:] in variants, f"{spec} is no variant"
        yield

    module = types.ModuleType("spack.package")
    module.__dict__.update(
        CMakePackage=CMakePackage, depends_on=depends_on, when=when, license=seen.append,
        version=lambda number, **_: seen.append(number),
        variant=lambda name, default, description: variants.update({name: default}))
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})
    scope = {}
    with open(f"{source}/tools/package/spack/package.py", encoding="utf-8") as recipe:
        exec(compile(recipe.read(), recipe.name, "exec"), scope)
    assert "BSD-3-Clause" in seen
    for _, condition in (x for x in seen if isinstance(x, tuple)):
        assert condition is None or condition[1:] in variants, condition
    for choice in itertools.product((False, True), repeat=len(variants)):
        package = scope["Limber"]()
        package.spec = Spec(dict(zip(variants, choice)))
        arguments = dict(package.cmake_args())
        check_options(arguments)
        assert ("LIMBER_LLVM_VERSION" in arguments) == package.spec.choice["llvm"]


def conda():
    """Parses the conda recipe, and checks the options that it passes."""
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(f"{source}/tools/package/conda/recipe.yaml")
    made = recipe.render(rattler_build.VariantConfig())
    assert len(made) == 1 and made[0].recipe.package.name == "limber", made
    with open(f"{source}/tools/package/conda/recipe.yaml", encoding="utf-8") as file:
        check_options(re.findall(r"-D(LIMBER_\w+)", file.read()))


{"spack": spack, "conda": conda}[what]()
