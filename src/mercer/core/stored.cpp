// The binding of stored matrices times a few vectors.
#include <nanobind/stl/tuple.h>

#include "binding.hpp"
#include "mercer/stored.hpp"

namespace {

// K V for a stored symmetric K, of which the half above the diagonal is read.
template <class T>
std::tuple<double, double> symmetry(In<T, 2> K, int threads) {
  require_aligned(K);
  require(K.shape(0) == K.shape(1), "a square matrix");
  mercer::Symmetry found;
  without_gil([&] {
    return mercer::symmetry<T>(K.data(), std::ptrdiff_t(K.shape(0)), found, threads, interrupted);
  });
  return {found.gap, found.largest};
}

template <class T>
Out<double, 2> symmetric_times(In<T, 2> K, In<T, 2> V, int threads) {
  require_aligned(K);
  require_aligned(V);
  require(K.shape(0) == K.shape(1), "K is square");
  require(V.shape(0) == K.shape(0), "V has a row for each of K");
  require(V.shape(1) <= most_columns, "no more than a million columns");
  auto out = new_array<double, 2>({V.shape(0), V.shape(1)});
  without_gil([&] {
    return mercer::symmetric_times<T>(K.data(), std::ptrdiff_t(K.shape(0)), V.data(),
                                      int(V.shape(1)), out.data(), threads, interrupted);
  });
  return out;
}

// A B, or A^T B where `transposed`, for a tall A and few columns.
Out<double, 2> tall_times(In<double, 2> A, In<double, 2> B, bool transposed, int threads) {
  require_aligned(A);
  require_aligned(B);
  require(B.shape(0) == A.shape(transposed ? 0 : 1), "B fits A");
  require(B.shape(1) <= most_columns, "no more than a million columns");
  const std::ptrdiff_t n = std::ptrdiff_t(A.shape(0)), w = std::ptrdiff_t(A.shape(1));
  const int c = int(B.shape(1));
  auto out = new_array<double, 2>({A.shape(transposed ? 1 : 0), B.shape(1)});
  without_gil([&] {
    return transposed ? mercer::tall_transposed_times(A.data(), n, w, B.data(), c, out.data(),
                                                      threads, interrupted)
                      : mercer::tall_times(A.data(), n, w, B.data(), c, out.data(), threads,
                                           interrupted);
  });
  return out;
}

}  // namespace

void bind_stored(nb::module_& module) {
  module.def("tall_times", &tall_times, nb::arg("A").noconvert(), nb::arg("B").noconvert(),
             nb::arg("transposed"), nb::arg("threads"));
  module.def("symmetry", &symmetry<float>, nb::arg("K").noconvert(), nb::arg("threads"));
  module.def("symmetry", &symmetry<double>, nb::arg("K").noconvert(), nb::arg("threads"));
  module.def("symmetric_times", &symmetric_times<float>, nb::arg("K").noconvert(),
             nb::arg("V").noconvert(), nb::arg("threads"));
  module.def("symmetric_times", &symmetric_times<double>, nb::arg("K").noconvert(),
             nb::arg("V").noconvert(), nb::arg("threads"));
}
