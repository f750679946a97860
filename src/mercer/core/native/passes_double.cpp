// What runs on tiles of double.
#include "mercer/passes.hpp"
#include "mercer/sums.hpp"

template mercer::Apply<double> mercer::apply_for<double>(const mercer::Pass&);
template mercer::SumsOfPanel<double> mercer::sums_of_panel<double>(unsigned);
template void mercer::paired_panel<double>(const double*, const double*, std::ptrdiff_t, double* const*,
                                        std::ptrdiff_t, double);
