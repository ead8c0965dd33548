/* SPDX-License-Identifier: BSD-3-Clause
 * Code that the programs comparing layouts share: tables of layouts that CuTe computed, counters of
 * comparisons, and declarations that kernel functions expect. */
#ifndef LIMBER_TEST_LAYOUTS_H
#define LIMBER_TEST_LAYOUTS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

struct table {
    int columns;
    std::vector<long> numbers;

    int operator()(int row, int column = 0) const
    {
        return (int)whole(row, column);
    }
    long whole(int row, int column = 0) const
    {
        return numbers.at((size_t)row * columns + column);
    }
};
/* The tables of the file, by name. */
static std::map<std::string, table> tables;

/* Reads the file of tables that layouts_cute.cc wrote. */
static void read_tables(const char *path)
{
    std::ifstream file(path);

    for (std::string name, line; getline(file, name, ':') && getline(file, line);) {
        std::istringstream words(line);
        table t;

        words >> t.columns;
        for (long number; words >> number;)
            t.numbers.push_back(number);
        tables[name] = t;
    }
}

/* Returns a table of CuTe's by its name; ends the program if there is none. */
static const table &cute(const std::string &name)
{
    auto found = tables.find(name);

    if (found == tables.end()) {
        printf("CuTe has no table called %s\n", name.c_str());
        exit(2);
    }
    return found->second;
}

/* Counts of numbers: those compared, and those that differ. */
static long compared, wrong;

/* Compares a number with CuTe's; prints the first 20 differences. */
static void same(const std::string &what, long ours, long theirs)
{
    compared++;
    if (ours != theirs && wrong++ < 20)
        printf("%s: %ld, in CuTe %ld\n", what.c_str(), ours, theirs);
}

/* Prints the numbers of comparisons and differences; returns the program's exit status. */
static int tell()
{
    printf("%ld numbers compared, %ld differ\n", compared, wrong);
    return wrong > 0;
}

#define DEVICE static
#define UNROLL
static uint32_t shared_address(uint32_t at)
{
    return at;
}

#endif
