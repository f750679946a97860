// The binding of graphs, trees and sparse rows: checks what comes from Python, and nothing more.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <optional>
#include <stdexcept>

#include "mercer/graphs.hpp"
#include "mercer/sparse.hpp"
#include "mercer/trees.hpp"

namespace nb = nanobind;

namespace {

template <class T, int D = 1>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
template <class T, int D = 1>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<D>>;

constexpr std::size_t most_numbers = std::size_t(1) << 40;  // beyond it a size is a mistake

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

template <class Array>
void require_aligned(const Array& array) {
  require(reinterpret_cast<std::uintptr_t>(array.data()) % alignof(typename Array::Scalar) == 0,
          "arrays are aligned");
}

bool interrupted() {
  nb::gil_scoped_acquire held;
  return PyErr_CheckSignals() != 0;
}

template <class F>
void without_gil(F work) {
  bool done;
  {
    nb::gil_scoped_release released;
    done = work();
  }
  if (!done) throw nb::python_error();
}

template <class T, int D>
Out<T, D> new_array(std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (std::size_t s : shape) {
    require(s == 0 || size <= most_numbers / s, "no more numbers than fit in memory");
    size *= s;
  }
  T* data = new T[std::max<std::size_t>(size, 1)]();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Out<T, D>(data, shape, owner);
}

// starts: 0 = starts[0] <= starts[1] <= ... <= starts[count] = size
void require_starts(const In<std::int64_t>& starts, std::size_t count, std::size_t size,
                    const char* message) {
  require_aligned(starts);
  require(starts.shape(0) == count + 1 && starts(0) == 0, message);
  for (std::size_t i = 0; i < count; ++i) require(starts(i) <= starts(i + 1), message);
  require(starts(count) == std::int64_t(size), message);
}

void require_codes(const In<std::int32_t>& codes, std::size_t size, std::size_t known) {
  require_aligned(codes);
  require(codes.shape(0) == size, "one code each");
  for (std::size_t i = 0; i < size; ++i)
    require(codes(i) >= 0 && std::size_t(codes(i)) < known, "codes that are known");
}

constexpr std::size_t any_code = std::size_t(1) << 31;

mercer::Graphs read_graphs(const In<std::int64_t>& offsets, const In<std::int64_t>& indptr,
                           const In<std::int32_t>& indices) {
  require(offsets.shape(0) >= 1 && indptr.shape(0) >= 1, "starts of graphs and of nodes");
  const std::size_t count = offsets.shape(0) - 1, nodes = indptr.shape(0) - 1;
  require(nodes < any_code, "fewer than 2^31 nodes");
  require_starts(offsets, count, nodes, "offsets cover the nodes in order");
  require_starts(indptr, nodes, indices.shape(0), "indptr covers the neighbours in order");
  require_aligned(indices);
  for (std::size_t g = 0; g < count; ++g)
    for (std::int64_t e = indptr(offsets(g)); e < indptr(offsets(g + 1)); ++e)
      require(indices(e) >= offsets(g) && indices(e) < offsets(g + 1),
              "neighbours are nodes of the same graph");
  return {std::ptrdiff_t(count), offsets.data(), indptr.data(), indices.data()};
}

// names: (nodes, 2); edge_names: (labels, 2); edge_codes: (ends,), None for a single edge label.
// The names of rounds 0, ..., iterations: (iterations + 1, nodes, 2).
Out<std::uint64_t, 3> refined(In<std::int64_t> offsets, In<std::int64_t> indptr,
                              In<std::int32_t> indices, In<std::uint64_t, 2> names,
                              std::optional<In<std::int32_t>> edge_codes,
                              In<std::uint64_t, 2> edge_names, int iterations, int threads) {
  const mercer::Graphs graphs = read_graphs(offsets, indptr, indices);
  const std::size_t n = graphs.nodes();
  require_aligned(names);
  require_aligned(edge_names);
  require(names.shape(0) == n && names.shape(1) == 2, "a name per node");
  require(edge_names.shape(0) >= 1 && edge_names.shape(1) == 2, "names of edge labels");
  if (edge_codes) require_codes(*edge_codes, graphs.ends(), edge_names.shape(0));
  require(iterations >= 0, "iterations of 0 or more");
  auto out = new_array<std::uint64_t, 3>({std::size_t(iterations) + 1, n, 2});
  static_assert(sizeof(mercer::Name) == 16);
  std::memcpy(out.data(), names.data(), 16 * n);
  without_gil([&] {
    auto* name = reinterpret_cast<mercer::Name*>(out.data());
    const auto* edge = reinterpret_cast<const mercer::Name*>(edge_names.data());
    for (int i = 0; i < iterations; ++i, name += n)
      if (!mercer::refine(graphs, name, edge_codes ? edge_codes->data() : nullptr, edge, name + n,
                          threads, interrupted))
        return false;
    return true;
  });
  return out;
}

// codes: (nodes,). Keys (K, 3), counts (K,) and where the rows of each graph start (count + 1,).
std::tuple<Out<std::uint32_t, 2>, Out<double, 1>, Out<std::int64_t, 1>> path_counts(
    In<std::int64_t> offsets, In<std::int64_t> indptr, In<std::int32_t> indices,
    In<std::int32_t> codes, int threads) {
  const mercer::Graphs graphs = read_graphs(offsets, indptr, indices);
  require_codes(codes, graphs.nodes(), any_code);
  constexpr std::ptrdiff_t block = 16;
  const std::ptrdiff_t blocks = (graphs.count + block - 1) / block;
  std::vector<mercer::PathCounts> found(blocks);
  std::vector<std::int64_t> sizes(graphs.count);
  without_gil([&] {
    return mercer::share(
        blocks, threads,
        [&](std::ptrdiff_t t, const mercer::Stop& stop) {
          for (std::ptrdiff_t g = t * block; g < std::min(graphs.count, (t + 1) * block); ++g) {
            const std::size_t before = found[t].keys.size();
            mercer::count_paths(graphs, g, codes.data(), found[t], stop);
            sizes[g] = std::int64_t(found[t].keys.size() - before);
          }
        },
        interrupted);
  });
  auto starts = new_array<std::int64_t, 1>({std::size_t(graphs.count) + 1});
  for (std::ptrdiff_t g = 0; g < graphs.count; ++g) starts(g + 1) = starts(g) + sizes[g];
  const std::size_t total = std::size_t(starts(graphs.count));
  auto keys = new_array<std::uint32_t, 2>({total, 3});
  auto counts = new_array<double, 1>({total});
  std::size_t at = 0;
  for (const mercer::PathCounts& part : found)
    for (std::size_t k = 0; k < part.keys.size(); ++k, ++at) {
      std::copy(part.keys[k].begin(), part.keys[k].end(), keys.data() + 3 * at);
      counts(at) = double(part.counts[k]);
    }
  return {keys, counts, starts};
}

// Sums over the common walks of the graphs of two lists, (n, m); with symmetric the second list is
// the first, and half is worked out. Codes of node and edge labels are those of both lists.
Out<double, 2> walk_sums(In<std::int64_t> offsets, In<std::int64_t> indptr,
                         In<std::int32_t> indices, In<std::int32_t> labels,
                         In<std::int32_t> edges, In<std::int64_t> offsets2,
                         In<std::int64_t> indptr2, In<std::int32_t> indices2,
                         In<std::int32_t> labels2, In<std::int32_t> edges2, double decay,
                         bool symmetric, int threads) {
  const mercer::Graphs A = read_graphs(offsets, indptr, indices),
                       B = read_graphs(offsets2, indptr2, indices2);
  require_codes(labels, A.nodes(), any_code);
  require_codes(edges, A.ends(), any_code);
  require_codes(labels2, B.nodes(), any_code);
  require_codes(edges2, B.ends(), any_code);
  require(!symmetric || A.count == B.count, "the same graphs twice");
  auto out = new_array<double, 2>({std::size_t(A.count), std::size_t(B.count)});
  double* value = out.data();
  without_gil([&] {
    return mercer::share(
        A.count, threads,
        [&](std::ptrdiff_t i, const mercer::Stop& stop) {
          mercer::CommonWalks walks;
          for (std::ptrdiff_t j = symmetric ? i : 0; j < B.count && !stop; ++j) {
            const double sum = walks.sum(A, i, B, j, labels.data(), labels2.data(), edges.data(),
                                         edges2.data(), decay);
            value[i * B.count + j] = sum;
            if (symmetric) value[j * B.count + i] = sum;
          }
        },
        interrupted);
  });
  return out;
}

// Connected sets of 1 to size nodes of each graph by their patterns, those of size s in the columns
// from the sum of 2^(r (r - 1) / 2) over r < s.
Out<std::int64_t, 2> subgraph_counts(In<std::int64_t> offsets, In<std::int64_t> indptr,
                                     In<std::int32_t> indices, int size, int threads) {
  const mercer::Graphs graphs = read_graphs(offsets, indptr, indices);
  require(size >= 1 && size <= mercer::Subgraphs::most_size, "sizes of 1 to 5");
  std::size_t width = 0;
  for (int s = 1; s <= size; ++s) width += std::size_t(1) << (s * (s - 1) / 2);
  auto out = new_array<std::int64_t, 2>({std::size_t(graphs.count), width});
  std::int64_t* counts = out.data();
  without_gil([&] {
    return mercer::share(
        graphs.count, threads,
        [&](std::ptrdiff_t g, const mercer::Stop& stop) {
          std::int64_t* parts[mercer::Subgraphs::most_size];
          std::size_t start = 0;
          for (int s = 1; s <= size; ++s) {
            parts[s - 1] = counts + g * width + start;
            start += std::size_t(1) << (s * (s - 1) / 2);
          }
          mercer::Subgraphs().count(graphs, g, size, parts, stop);
        },
        interrupted);
  });
  return out;
}

mercer::SparseRows read_rows(const In<std::int64_t>& indptr, const In<std::int32_t>& indices,
                             const In<double>& data, std::size_t width) {
  require(indptr.shape(0) >= 1, "starts of rows");
  const std::size_t count = indptr.shape(0) - 1;
  require(count < any_code, "fewer than 2^31 rows");
  require_starts(indptr, count, indices.shape(0), "indptr covers the entries in order");
  require_codes(indices, indices.shape(0), width);
  require_aligned(data);
  require(data.shape(0) == indices.shape(0), "a value per entry");
  return {std::ptrdiff_t(count), indptr.data(), indices.data(), data.data()};
}

// Σ_c x_c y_c, or Σ_c min(x_c, y_c), of every row x of the first and y of the second: (n, m).
Out<double, 2> sparse_gram(In<std::int64_t> indptr, In<std::int32_t> indices, In<double> data,
                           In<std::int64_t> indptr2, In<std::int32_t> indices2, In<double> data2,
                           std::size_t width, bool minimum, int threads) {
  require(width <= any_code, "no more than 2^31 columns");
  const mercer::SparseRows A = read_rows(indptr, indices, data, width),
                           B = read_rows(indptr2, indices2, data2, width);
  auto out = new_array<double, 2>({std::size_t(A.count), std::size_t(B.count)});
  without_gil([&] {
    return minimum ? mercer::sparse_gram<mercer::Minimum>(A, B, width, out.data(), threads,
                                                          interrupted)
                   : mercer::sparse_gram<mercer::Product>(A, B, width, out.data(), threads,
                                                          interrupted);
  });
  return out;
}

mercer::Trees read_trees(const In<std::int64_t>& offsets, const In<std::int32_t>& keys,
                         const In<std::int64_t>& children, const In<std::int64_t>& child) {
  require(offsets.shape(0) >= 1, "starts of trees");
  const std::size_t count = offsets.shape(0) - 1, nodes = keys.shape(0);
  require(nodes < any_code, "fewer than 2^31 nodes");
  require_starts(offsets, count, nodes, "offsets cover the nodes in order");
  require_starts(children, nodes, child.shape(0), "children cover the edges in order");
  require_aligned(keys);
  require_aligned(child);
  // In post-order a node's children are the last ones without a parent.
  std::vector<std::int64_t> waiting;
  for (std::size_t t = 0; t < count; ++t) {
    waiting.clear();
    for (std::int64_t i = offsets(t); i < offsets(t + 1); ++i) {
      const std::int64_t arity = children(i + 1) - children(i);
      require(arity <= std::int64_t(waiting.size()), "nodes in post-order");
      for (std::int64_t k = 0; k < arity; ++k)
        require(child(children(i) + k) == waiting[waiting.size() - arity + k],
                "nodes in post-order");
      waiting.resize(waiting.size() - arity);
      waiting.push_back(i);
    }
    require(waiting.size() == 1, "a single root per tree");
  }
  return {std::ptrdiff_t(count), offsets.data(), keys.data(), children.data(), child.data()};
}

// Equal keys mean equal numbers of children where a node's children are compared one by one.
void require_arities(const mercer::Trees& A, const mercer::Trees& B) {
  std::vector<std::int64_t> arity(A.offsets[A.count] + B.offsets[B.count], -1);
  for (const mercer::Trees* trees : {&A, &B})
    for (std::int64_t i = 0; i < trees->offsets[trees->count]; ++i) {
      const std::int32_t key = trees->keys[i];
      if (key < 0) continue;
      require(std::size_t(key) < arity.size(), "no more keys than nodes");
      const std::int64_t found = trees->children[i + 1] - trees->children[i];
      require(arity[key] < 0 || arity[key] == found, "one number of children per key");
      arity[key] = found;
    }
}

// Sums over all pairs of matching nodes, (n, m): of whole productions, or with mu of partial ones.
Out<double, 2> tree_sums(In<std::int64_t> offsets, In<std::int32_t> keys, In<std::int64_t> children,
                         In<std::int64_t> child, In<std::int64_t> offsets2, In<std::int32_t> keys2,
                         In<std::int64_t> children2, In<std::int64_t> child2, double decay,
                         std::optional<double> mu, bool symmetric, int threads) {
  const mercer::Trees A = read_trees(offsets, keys, children, child),
                      B = read_trees(offsets2, keys2, children2, child2);
  require(!symmetric || A.count == B.count, "the same trees twice");
  if (!mu) require_arities(A, B);
  auto out = new_array<double, 2>({std::size_t(A.count), std::size_t(B.count)});
  without_gil([&] {
    const mercer::SortedTrees first(A), second(B);
    if (mu)
      return mercer::tree_sums(first, second, mercer::PartialProductions{decay, *mu, {}, {}},
                               symmetric, out.data(), threads, interrupted);
    return mercer::tree_sums(first, second, mercer::WholeProductions{decay}, symmetric, out.data(),
                             threads, interrupted);
  });
  return out;
}

}  // namespace

void bind_structured(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("refined", &refined, exactly("offsets"), exactly("indptr"), exactly("indices"),
             exactly("names"), exactly("edge_codes").none(), exactly("edge_names"),
             nb::arg("iterations"), nb::arg("threads"));
  module.def("path_counts", &path_counts, exactly("offsets"), exactly("indptr"),
             exactly("indices"), exactly("codes"), nb::arg("threads"));
  module.def("walk_sums", &walk_sums, exactly("offsets"), exactly("indptr"), exactly("indices"),
             exactly("labels"), exactly("edges"), exactly("offsets2"), exactly("indptr2"),
             exactly("indices2"), exactly("labels2"), exactly("edges2"), nb::arg("decay"),
             nb::arg("symmetric"), nb::arg("threads"));
  module.def("subgraph_counts", &subgraph_counts, exactly("offsets"), exactly("indptr"),
             exactly("indices"), nb::arg("size"), nb::arg("threads"));
  module.def("sparse_gram", &sparse_gram, exactly("indptr"), exactly("indices"), exactly("data"),
             exactly("indptr2"), exactly("indices2"), exactly("data2"), nb::arg("width"),
             nb::arg("minimum"), nb::arg("threads"));
  module.def("tree_sums", &tree_sums, exactly("offsets"), exactly("keys"), exactly("children"),
             exactly("child"), exactly("offsets2"), exactly("keys2"), exactly("children2"),
             exactly("child2"), nb::arg("decay"), nb::arg("mu").none(), nb::arg("symmetric"),
             nb::arg("threads"));
}
