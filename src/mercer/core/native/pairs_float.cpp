// Routines over pairs in float.
#include "mercer/instances.hpp"

namespace mercer {
MERCER_PAIRS(, float)
}
