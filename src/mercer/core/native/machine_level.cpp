// A program that prints the level of this machine, for the build to compile that one.
#include <cstdio>

#include "mercer/machine.hpp"

int main() { std::puts(mercer::machine_level()); }
