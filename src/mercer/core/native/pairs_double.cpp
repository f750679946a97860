// Routines over pairs in double.
#include "mercer/instances.hpp"

namespace mercer {
MERCER_PAIRS(, double)
}
