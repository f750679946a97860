// The module: which instruction set it needs, and what each part binds.
#include "binding.hpp"
#include "mercer/machine.hpp"
#include "mercer/simd.hpp"

void bind_boosting(nb::module_& module);
void bind_suffixes(nb::module_& module);
void bind_tables(nb::module_& module);
void bind_coordinate_descent(nb::module_& module);
void bind_sequences(nb::module_& module);
void bind_online(nb::module_& module);
void bind_pairs(nb::module_& module);
void bind_stored(nb::module_& module);
void bind_structured(nb::module_& module);
void bind_smoothing(nb::module_& module);
void bind_working_sets(nb::module_& module);

NB_MODULE(MERCER_MODULE, module) {
  module.def("machine_level", &mercer::machine_level);
  module.attr("vector_bytes") = mercer::vector_bytes;
  bind_boosting(module);
  bind_pairs(module);
  bind_stored(module);
  bind_online(module);
  bind_structured(module);
  bind_smoothing(module);
  bind_working_sets(module);
  bind_tables(module);
  bind_coordinate_descent(module);
  bind_sequences(module);
  bind_suffixes(module);
}
