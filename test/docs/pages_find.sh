#!/bin/sh
# pages.py must find each kind of fault in a page, and none in a good page.
set -eu
pages=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
cd "$work"

# arguments: name, what pages.py must report; the page comes from stdin
expect() {
    cat > docs/page.md
    status=0
    "$PYTHON" "$pages" . "$build" docs/page.md > log 2>&1 || status=$?
    if [ "$2" = good ]; then
        [ $status = 0 ] || { echo "$1: refused"; cat log; exit 1; }
    else
        [ $status = 1 ] && grep -qF -- "$2" log || { echo "$1: not found"; cat log; exit 1; }
    fi
}
expect 'good page' good <<'END'
# A page
[here](#two-words), in `x.txt`
<!-- file x.txt -->
```
12 3.5 seconds
```
<!-- run
true
...
rm x.txt
-->
```sh
cat x.txt
```
<!-- output numbers vary -->
```
4 0.25 seconds
```
<!-- run -->
```sh
echo 11.9 and 1.1e-3 in 7 s
```
<!-- output within 20% -->
```
10 and 0.001 in ... s
```
<!-- run -->
```sh
test ! -e x.txt; printf '%s\n' one two three four; which limber
```
<!-- output -->
```
one
...
fo...r
...limber/bin/limber
```
<!-- run -->
```sh
echo '   1  a:n   a:n      832 x 832       61.52%  ozaki1-f16     0.00492  1.13e-16'
```
<!-- output numbers and schemes vary -->
```
   1  a     a        832 x 832       75.45%  ozaki1-i8      0.00231  1.13e-16
```
<!-- run
double a[] = { 1 };
...
assert(*a == 2);
-->
```c
#include <limber/limber.h>
*a = 2;
```
<!-- run after -->
```c
printf("%g\n", *a);
```
<!-- output -->
```
2
```
<!-- run where no-such-program -->
```sh
false
```
<!-- output -->
```
nothing
```
<!-- not run: it says why -->
```sh
false
```
## Two words
END
expect 'no mark' 'page.md:1: the block has no mark' <<'END'
```sh
true
```
END
expect 'no reason' "'not run:' is no mark" <<'END'
<!-- not run: -->
```sh
true
```
END
expect 'a command that fails' 'page.md:2: status 1' <<'END'
<!-- run -->
```sh
false
true
```
END
expect 'a command that fails in a pipe' 'page.md:2: status 1' <<'END'
<!-- run -->
```sh
false | true
```
END
expect 'C that does not compile' 'page.md:2: does not compile' <<'END'
<!-- run -->
```c
limber_gem();
```
END
expect 'C that fails' 'page.md:4: status -6' <<'END'
<!-- run
...
assert(0); -->
```c
int i;
```
END
expect 'other output' 'page.md:6: the output is' <<'END'
<!-- run -->
```sh
echo 1; echo 2
```
<!-- output -->
```
1
```
END
expect 'another number' 'page.md:6: the output is' <<'END'
<!-- run -->
```sh
echo 1.5
```
<!-- output -->
```
1.6
```
END
expect 'a number too far away' 'page.md:6: the output is' <<'END'
<!-- run -->
```sh
echo 12.1 and 1.1e-3
```
<!-- output within 20% -->
```
10 and 0.001
```
END
expect 'words for a number' 'page.md:6: the output is' <<'END'
<!-- run -->
```sh
echo many seconds
```
<!-- output numbers vary -->
```
1.6 seconds
```
END
expect 'a part without its size' 'page.md:6: the output is' <<'END'
<!-- run -->
```sh
echo '   1  a     a        832       75.45%  ozaki1-i8      0.00231  1.13e-16'
```
<!-- output numbers and schemes vary -->
```
   1  a     a        832 x 832       75.45%  ozaki1-i8      0.00231  1.13e-16
```
END
expect 'output of nothing' 'page.md:2: no block is run' <<'END'
<!-- output -->
```
1.6
```
END
expect 'an indented block' 'page.md: a fenced block is indented' <<'END'
- item
  ```sh
  true
  ```
END
expect 'a file that no reader can name' 'no reader sees that this is `y.txt`' <<'END'
In `x.txt`:
<!-- file x.txt -->
```
x
```
<!-- file y.txt -->
```
y
```
END
expect 'no such file' 'no such file: other.md' <<'END'
[there](other.md)
END
expect 'no such heading' 'no such heading: #there' <<'END'
[there](#there)
END
# A folder of pages: README.md leads to one page within two clicks, but not to another.  Pages and
# the changelog are too long by one word or line.
mkdir -p tree/docs/measured tree/include/limber tree/examples
cd tree
echo '[one](docs/one.md)' > README.md
: > CONTRIBUTING.md
echo '[two](two.md) [contributing](../CONTRIBUTING.md)' > docs/one.md
echo '[three](three.md)' > docs/two.md
: > docs/three.md
cat > include/limber/x.h <<'END'
LIMBER_API int limber_one(void);
LIMBER_API limber_status *limber_two(limber_context *ctx,
                                     int limber_four);
LIMBER_API void limber_three(void);
END
echo 'limber_one();' > examples/x.c
cat >> docs/one.md <<'END'
<!-- run -->
```c
limber_two();
```
<!-- not run: so it does not count -->
```c
limber_three();
```
END
# Prints words, one a line.
words() {  # number
    seq "$1" | sed 's/.*/word/'
}
words $((3001 - $(wc -w < docs/one.md))) >> docs/one.md
words $((45001 - $(cat docs/*.md | wc -w))) > docs/three.md
words 15001 > docs/measured/four.md
words 151 > CHANGELOG.md
"$PYTHON" "$pages" --links . > log && { echo "a tree with faults passes"; exit 1; }
printf '%s\n' 'docs/three.md: more than two clicks from README.md' 'limber_three has no example' \
    'docs/one.md: 3001 words, more than 3000' \
    "docs/three.md: $(wc -w < docs/three.md) words, more than 3000" \
    'docs/*.md: 45001 words, more than 45000' \
    'docs/measured/*.md: 15001 words, more than 15000' \
    'CHANGELOG.md: 151 lines, more than 150' | cmp - log
echo "each fault of a page is found"
