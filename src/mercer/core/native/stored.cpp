// The binding of stored matrices times a few vectors.
#include <nanobind/stl/tuple.h>

#include "binding.hpp"
#include "mercer/krylov.hpp"
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

using Writable = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Steps of block Lanczos on a stored symmetric K, in a basis and its T = basis K basis^T, which are
// extended in place; how many steps were taken, and what the last left outside of the basis.
std::tuple<int, Out<double, 2>> krylov_steps(In<double, 2> K, Writable basis, Writable T,
                                             std::size_t size, std::size_t width,
                                             std::size_t steps, bool centred, int threads) {
  require_aligned(K);
  require_aligned(basis);
  require_aligned(T);
  const std::size_t n = K.shape(0), room = basis.shape(0);
  require(n == K.shape(1), "K is square");
  require(basis.shape(1) == n, "rows of the basis are as long as those of K");
  require(T.shape(0) == room && T.shape(1) == room, "T has a row and a column for each of the basis");
  require(room <= std::size_t(most_columns), "no more than a million rows of the basis");
  require(0 < width && width <= size && size <= room, "the last block is in the basis");
  require(steps <= (room - size) / width, "the basis has room for the steps");
  auto rest = new_array<double, 2>({width, width});
  int taken = 0;
  without_gil([&] {
    return mercer::krylov_steps(K.data(), std::ptrdiff_t(n), basis.data(), T.data(), int(room),
                                int(size), int(width), int(steps), centred, threads, interrupted,
                                rest.data(), taken);
  });
  return {taken, rest};
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
  module.def("krylov_steps", &krylov_steps, nb::arg("K").noconvert(),
             nb::arg("basis").noconvert(), nb::arg("T").noconvert(), nb::arg("size"),
             nb::arg("width"), nb::arg("steps"), nb::arg("centred"), nb::arg("threads"));
  module.def("tall_times", &tall_times, nb::arg("A").noconvert(), nb::arg("B").noconvert(),
             nb::arg("transposed"), nb::arg("threads"));
  module.def("symmetry", &symmetry<float>, nb::arg("K").noconvert(), nb::arg("threads"));
  module.def("symmetry", &symmetry<double>, nb::arg("K").noconvert(), nb::arg("threads"));
  module.def("symmetric_times", &symmetric_times<float>, nb::arg("K").noconvert(),
             nb::arg("V").noconvert(), nb::arg("threads"));
  module.def("symmetric_times", &symmetric_times<double>, nb::arg("K").noconvert(),
             nb::arg("V").noconvert(), nb::arg("threads"));
}
