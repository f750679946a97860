// What runs on tiles of float.
#include "mercer/passes.hpp"
#include "mercer/sums.hpp"

template mercer::Apply<float> mercer::apply_for<float>(const mercer::Pass&);
template mercer::SumsOfPanel<float> mercer::sums_of_panel<float>(unsigned);
template void mercer::paired_panel<float>(const float*, const float*, std::ptrdiff_t, float* const*,
                                        std::ptrdiff_t, float);
