#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the blocks of the pages, follows their links, finds functions without an example, and
checks that pages do not become too long.

    pages.py SOURCE BUILD [PAGE...]     all pages: README.md, CONTRIBUTING.md and docs/*.md
    pages.py --links SOURCE [PAGE...]   links, marks and lengths alone

A comment on the line before each fenced block, which a reader does not see, says what is done
with it:

    <!-- run -->            Run it.  `sh` by bash -e; `python` and `c` as programs.  A `c` block
                            without main() is put into one, behind the headers of Limber.
    <!-- run after -->      Run it after the blocks of its language that ran before on the page.
    <!-- run where R gcc -->  Run it where all of these are found, as programs or as modules of
                            Python.  Otherwise the test says that it was skipped.
    <!-- output -->         What the block that was run before it prints, on stdout and stderr.
                            "..." stands for anything, on a line of its own for any lines.
    <!-- output within 20% -->  As `output`, but each number may differ by so much.
    <!-- output numbers vary -->  As `output`, but each number stands for any other.
    <!-- output numbers and schemes vary -->  Also the schemes after "by" and "scheme", and in a
                            table of parts, which depend on the CPU, stand for any other.
    <!-- file NAME -->      Write it to this file, for blocks that follow.  The text before it has
                            the name, for readers.
    <!-- not run: WHY -->   Left out; WHY has a few words.

Lines of the comment after the first are code that is not shown.  It stands before the block, or
around it where a line of it is "...".

All blocks of a page run in one new folder, which is also HOME, so that no kernel is kept from
before.  ~/limber is an installation of the build."""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"^(?:<!-- ((?:(?!-->).)*?)\s*-->\n)?^```([^\n]*)\n(.*?)^```$", re.M | re.S)
MARK = re.compile(r"(run(?: after)?(?: where (?P<needs>[\w. -]+))?"
                  r"|output(?: within (?P<percent>\d+)%| numbers(?: and schemes)? vary)?"
                  r"|file (?P<file>[\w.-]+)|not run: .*\w+ .*)")
HEADERS = ("limber/limber.h", "limber/ops.h", "limber/interval.h", "limber/solve.h",
           "limber/research.h", "limber/interpose.h", "limber/environment.h", "assert.h", "dlfcn.h",
           "math.h", "stdio.h", "stdlib.h", "string.h")
# functions that NumPy's wheels give another name, such as cblas_dgemm
WHEEL_NAME = re.compile(r"\bscipy_(\w+?)64_\b")
MARKER = "---- the block itself ----"
# a row of a plan's table of parts, with its spaces escaped: a group of A and one of B, its size,
# its share of products, its scheme, seconds and bound
PART = re.compile(r"(?:\\? )+\d+(?:\\? )+[a-z](?::[a-z])?(?:\\? )+[a-z](?::[a-z])?(?:\\? )+"
                  r"\d+\\? x\\? \d+(?:\\? )+[\d.\\]+%(?:\\? )+[\w\\-]+(?:\\? )+"
                  r"[\w.\\-]+(?:\\? )+[\w.\\-]+")
SECONDS = 300       # limit for a block, on a busy machine


class Wrong(Exception):
    """A page breaks a rule."""
    pass


class Block:
    """A fenced code block of a page, with the mark (an HTML comment before it) that says how to
    test it."""
    def __init__(self, page, line, comment, language, text):
        self.where = f"{page}:{line}"
        self.language, self.text = language, text
        head, _, hidden = (comment or "").partition("\n")
        before, _, after = f"\n{hidden}\n".partition("\n...\n")
        self.before, self.after = before[1:] + "\n", after + "\n"
        match = MARK.fullmatch(head)
        if not match:
            raise Wrong(f"{self.where}: the block has no mark: test/docs/pages.py lists them"
                        if not head else f"{self.where}: '{head}' is no mark")
        self.mark = head
        self.runs = head.startswith("run")
        self.needs = (match["needs"] or "").split()
        self.file = match["file"]
        self.percent = match["percent"] and int(match["percent"])
        if self.runs and language not in ("sh", "python", "c"):
            raise Wrong(f"{self.where}: a block of '{language}' cannot run")

    def whole(self):
        """Returns the block with the hidden text of its comment."""
        return self.before + self.text + self.after


def blocks(source, page):
    """Returns a page's blocks.  Raises Wrong if one has no valid mark."""
    with open(os.path.join(source, page)) as f:
        text = f.read()
    found, end = [], 0
    for m in BLOCK.finditer(text):
        found.append(Block(page, text.count("\n", 0, m.start(2)) + 1, m[1], m[2], m[3]))
        name = found[-1].file
        if name and f"`{name}`" not in text[end:m.start()]:
            raise Wrong(f"{found[-1].where}: no reader sees that this is `{name}`")
        end = m.end()
    if 2 * len(found) != len(re.findall(r"^ *```", text, re.M)):
        raise Wrong(f"{page}: a fenced block is indented, or has no end")
    for i, block in enumerate(found):
        if block.mark.startswith("output") and (i == 0 or not found[i - 1].runs):
            raise Wrong(f"{block.where}: no block is run right before this output")
    return found


# ---- links ----------------------------------------------------------------------------------

def plain(text):
    """Returns a page without fenced blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def anchors(text):
    """Returns the anchors that GitHub makes from a page's headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S),
                              re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number, first = 0, name
        while name in found:
            number += 1
            name = f"{first}-{number}"
        found.add(name)
    return found


def links(source, page):
    """Yields the targets of a page's links as (file, anchor), with paths from the source folder."""
    with open(os.path.join(source, page)) as f:
        text = f.read()
    for target in re.findall(r"\]\(([^)\s]+)\)", plain(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), file)) if file else page
        yield target, path, anchor


def check_links(source, pages):
    """Lists the links to files or headings that do not exist."""
    wrong, texts = [], {}
    for page in pages:
        for target, path, anchor in links(source, page):
            if not os.path.exists(os.path.join(source, path)):
                wrong.append(f"{page}: no such file: {target}")
            elif anchor:
                if path not in texts:
                    with open(os.path.join(source, path)) as f:
                        texts[path] = anchors(f.read())
                if anchor not in texts[path]:
                    wrong.append(f"{page}: no such heading: {target}")
    return wrong


def check_clicks(source, pages):
    """Checks that every page can be reached from README.md with two clicks."""
    reached = {"README.md"}
    for _ in range(2):
        for page in sorted(reached):
            if page.endswith(".md"):
                reached |= {path for _, path, _ in links(source, page)}
    return [f"{page}: more than two clicks from README.md" for page in pages if page not in reached]


def check_examples(source, pages):
    """Checks that every public C function is called in examples/ or in a block that is run."""
    names, text = [], []
    include = os.path.join(source, "include", "limber")
    for header in sorted(os.listdir(include)):
        with open(os.path.join(include, header)) as f:
            names += re.findall(r"^LIMBER_API [^;(]*?\b(limber_\w+)\(", f.read(), re.M)
    for name in os.listdir(os.path.join(source, "examples")):
        if name.endswith(".c"):
            with open(os.path.join(source, "examples", name)) as f:
                text.append(f.read())
    for page in pages:
        with open(os.path.join(source, page)) as f:
            text += [m[3] for m in BLOCK.finditer(f.read())
                     if m[2] == "c" and (m[1] or "").startswith("run")]
    called = set(re.findall(r"\blimber_\w+", "\n".join(text)))
    return [f"{name} has no example" for name in names if name not in called]


def word_count(source, pages):
    """The number of words on some pages."""
    count = 0
    for page in pages:
        with open(os.path.join(source, page)) as f:
            count += len(f.read().split())
    return count


def check_lengths(source):
    """Checks how many words pages have, one by one and together, and how many lines the changelog
    has.  A page of docs/measured, which is a list, may have any length."""
    docs, measured = ([os.path.join(folder, name)
                       for name in sorted(os.listdir(os.path.join(source, folder)))
                       if name.endswith(".md")] for folder in ("docs", "docs/measured"))
    limits = [(page, [page], 3000) for page in docs]
    limits += [("docs/*.md", docs, 45000), ("docs/measured/*.md", measured, 15000)]
    counts = [(name, word_count(source, pages), most) for name, pages, most in limits]
    wrong = [f"{name}: {count} words, more than {most}" for name, count, most in counts
             if count > most]
    with open(os.path.join(source, "CHANGELOG.md")) as f:
        lines = len(f.readlines())
    if lines > 150:
        wrong.append(f"CHANGELOG.md: {lines} lines, more than 150")
    return wrong


# ---- running --------------------------------------------------------------------------------

def have(name, env):
    """Whether a program or Python module is available."""
    return shutil.which(name, path=env["PATH"]) is not None or subprocess.run(
        ["python3", "-c", f"import {name}"], env=env, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode == 0


def run(command, folder, env):
    """Returns status and output of a command.  Ends all its processes."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = f"more than {SECONDS} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace")


def statements(block, earlier, mark):
    """Returns a C program whose main() consists of the blocks."""
    text = "".join(b.whole() for b in earlier) + mark + block.whole()
    includes = re.findall(r"^#include .*$", text, re.M)
    text = re.sub(r"^#include .*$", "", text, flags=re.M)
    return ("\n".join([f"#include <{h}>" for h in HEADERS] + includes) +
            "\nint main(void)\n{\n" + text + "\nreturn 0;\n}\n")


def run_block(block, earlier, folder, env):
    """Runs a block after the earlier blocks on which it builds, and returns its own output."""
    name = os.path.join(folder, "block")
    if block.language == "sh":
        with open(name + ".sh", "w") as f:
            f.write("".join(b.whole() for b in earlier) +
                    (f"echo '{MARKER}'\n" if earlier else "") + block.whole())
        command = ["bash", "-e", "-o", "pipefail", name + ".sh"]
    elif block.language == "python":
        with open(name + ".py", "w") as f:
            f.write("".join(b.whole() for b in earlier) +
                    (f"print('{MARKER}')\n" if earlier else "") + block.whole())
        command = ["python3", name + ".py"]
    else:
        with open(name + ".c", "w") as f:
            f.write(block.whole() if "main(" in block.text else
                    statements(block, earlier, f'puts("{MARKER}");\n' if earlier else ""))
        status, out = run(["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                           name + ".c", "-o", name, "-llimber", "-lm", "-ldl"], folder, env)
        if status:
            raise Wrong(f"{block.where}: does not compile:\n{out}")
        command = [name]
    status, out = run(command, folder, env)
    if status:
        raise Wrong(f"{block.where}: status {status}:\n{out}")
    return out.rpartition(MARKER + "\n")[2] if earlier else out


def as_pattern(text, numbers_vary, schemes_vary):
    """Returns a regular expression for the output that a block shows; "..." stands for any text."""
    lines = []
    for line in text.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:[^\n]*\n)*?")
            continue
        line = re.escape(line.rstrip()).replace(r"\.\.\.", r"[^\n]*")
        if schemes_vary:        # before numbers, which some names of schemes contain
            line = re.sub(r"\bby\\ [^,]*?(,|\\ on)", r"by\\ [^ ,]+\1", line)
            line = re.sub(r"^(scheme[\\ ]+).*?\\ on\\ (\w+):.*", r"\1[^ ]+\\ on\\ \2:.*", line)
            if PART.fullmatch(line):
                line = PART.pattern
        if numbers_vary and line != PART.pattern:
            line = re.sub(r"(?:\\ )+", lambda m: " +" if len(m[0]) > 2 else m[0], line)
            line = re.sub(r"\d+(?:\\\.\d+)?(?:e(?:\\[+-])?\d+)?",
                          r"(\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?)", line)
        lines.append(line + r"[ \t]*\n")
    return "".join(lines)


def is_printed(block, text):
    """True if a block of output allows this text."""
    match = re.fullmatch(as_pattern(block.text, block.percent or "numbers" in block.mark,
                                    "schemes" in block.mark), text)
    if not match or not block.percent:
        return match is not None
    stated = re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", block.text)
    return all(abs(float(a) - float(b)) <= block.percent / 100 * abs(float(b))
               for a, b in zip(match.groups(), stated))


def run_page(source, page, prefix, env):
    """Runs the page's blocks, compares outputs, and returns the list of errors."""
    env, wrong, skipped, ran, earlier = dict(env), [], [], 0, {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        os.symlink(prefix, os.path.join(folder, "limber"))
        env["HOME"] = folder
        last = None
        for block in blocks(source, page):
            if block.file:
                with open(os.path.join(folder, block.file), "w") as f:
                    f.write(block.before.lstrip("\n") + block.text)
            elif block.mark.startswith("output"):
                if last is not None and not is_printed(
                        block, WHEEL_NAME.sub(r"\1", last.rstrip("\n")) + "\n"):
                    wrong.append(f"{block.where}: the output is\n{last}")
            elif block.runs:
                missing = [name for name in block.needs if not have(name, env)]
                if block.language == "python" and "numpy" not in missing and \
                        not have("numpy", env):
                    missing.append("numpy")
                last = None
                if missing:
                    skipped.append(f"{block.where}: no {', '.join(missing)}: skipped")
                    continue
                before = earlier.setdefault(block.language, [])
                try:
                    last = run_block(block, before if " after" in block.mark else [], folder, env)
                    ran += 1
                    before.append(block)
                except Wrong as e:
                    wrong.append(str(e))
    print(f"{page}: {ran} blocks in {time.monotonic() - started:.1f} s", *skipped, sep="\n",
          flush=True)
    return wrong


def python_with_numpy():
    """Returns a Python that has NumPy, if there is one."""
    for python in (os.environ.get("PYTHON", "python3"), "python3", "/usr/bin/python3"):
        if shutil.which(python) and subprocess.run([python, "-c", "import numpy"],
                                                   stderr=subprocess.DEVNULL).returncode == 0:
            return shutil.which(python)
    return shutil.which("python3")


def environment(prefix, folder):
    """Returns the environment of a user who has installed Limber in `prefix`, without variables of
    the tester."""
    tools = os.path.join(folder, "bin")
    os.mkdir(tools)
    for name in ("python", "python3"):
        with open(os.path.join(tools, name), "w") as f:
            f.write(f'#!/bin/sh\nexec {python_with_numpy()} "$@"\n')
        os.chmod(os.path.join(tools, name), 0o755)
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("LIMBER_", "XDG_", "LD_", "PYTHON", "OMP_"))}
    env.update(PATH=f"{prefix}/bin:{tools}:{env['PATH']}", C_INCLUDE_PATH=f"{prefix}/include",
               LIBRARY_PATH=f"{prefix}/lib", LD_LIBRARY_PATH=f"{prefix}/lib",
               PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig", PYTHONDONTWRITEBYTECODE="1",
               PYTHONPATH=f"{prefix}/share/limber/python", LC_ALL="C.UTF-8")
    for name in ("LIMBER_LLVM",):       # a machine may have no libLLVM where Limber looks for it
        if name in os.environ:
            env[name] = os.environ[name]
    return env


def all_pages(source):
    """README.md, CONTRIBUTING.md and all of docs/."""
    return ["README.md", "CONTRIBUTING.md"] + sorted(
        os.path.join("docs", name) for name in os.listdir(os.path.join(source, "docs"))
        if name.endswith(".md"))


def main():
    arguments = sys.argv[1:]
    only_links = arguments[:1] == ["--links"]
    source = arguments[1 if only_links else 0]
    pages = arguments[2:] or all_pages(source)
    wrong = check_links(source, pages)
    if pages == all_pages(source):
        wrong += check_clicks(source, pages) + check_examples(source, pages)
        wrong += check_lengths(source)
    for page in list(pages):
        try:
            blocks(source, page)
        except Wrong as e:
            wrong.append(str(e))
            pages.remove(page)
    if not only_links:
        with tempfile.TemporaryDirectory(prefix="pages-") as folder:
            prefix = os.path.join(folder, "limber")
            subprocess.run(["cmake", "--install", arguments[1], "--prefix", prefix], check=True,
                           stdout=subprocess.DEVNULL)
            env = environment(prefix, folder)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for found in pool.map(lambda page: run_page(source, page, prefix, env), pages):
                    wrong += found
    print("\n".join(wrong) or "every block runs or says why not, and every link leads somewhere")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
