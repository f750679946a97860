// The binding of graphs, trees and sparse rows: checks what comes from Python, and nothing more.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "binding.hpp"
#include "mercer/graphs.hpp"
#include "mercer/sparse.hpp"
#include "mercer/trees.hpp"

namespace {

void require_codes(const In<std::int32_t, 1>& codes, std::size_t size, std::size_t known) {
  require_aligned(codes);
  require(codes.shape(0) == size, "one code each");
  for (std::size_t i = 0; i < size; ++i)
    require(codes(i) >= 0 && std::size_t(codes(i)) < known, "codes that are known");
}

constexpr std::size_t any_code = std::size_t(1) << 31;

mercer::Graphs read_graphs(const In<std::int64_t, 1>& offsets, const In<std::int64_t, 1>& indptr,
                           const In<std::int32_t, 1>& indices) {
  require(offsets.shape(0) >= 1 && indptr.shape(0) >= 1, "starts of graphs and of nodes");
  const std::size_t count = offsets.shape(0) - 1, nodes = indptr.shape(0) - 1;
  require(nodes < any_code, "fewer than 2^31 nodes");
  require_starts(offsets, nodes);
  require_starts(indptr, indices.shape(0));
  require_aligned(indices);
  for (std::size_t g = 0; g < count; ++g)
    for (std::int64_t e = indptr(offsets(g)); e < indptr(offsets(g + 1)); ++e)
      require(indices(e) >= offsets(g) && indices(e) < offsets(g + 1),
              "neighbours are nodes of the same graph");
  return {std::ptrdiff_t(count), offsets.data(), indptr.data(), indices.data()};
}

// names: (nodes, 2); edge_names: (labels, 2); edge_codes: (ends,), None for a single edge label.
// The names of rounds 0, ..., iterations: (iterations + 1, nodes, 2).
Out<std::uint64_t, 3> refined(In<std::int64_t, 1> offsets, In<std::int64_t, 1> indptr,
                              In<std::int32_t, 1> indices, In<std::uint64_t, 2> names,
                              std::optional<In<std::int32_t, 1>> edge_codes,
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
    In<std::int64_t, 1> offsets, In<std::int64_t, 1> indptr, In<std::int32_t, 1> indices,
    In<std::int32_t, 1> codes, int threads) {
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
  starts(0) = 0;
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
Out<double, 2> walk_sums(In<std::int64_t, 1> offsets, In<std::int64_t, 1> indptr,
                         In<std::int32_t, 1> indices, In<std::int32_t, 1> labels,
                         In<std::int32_t, 1> edges, In<std::int64_t, 1> offsets2,
                         In<std::int64_t, 1> indptr2, In<std::int32_t, 1> indices2,
                         In<std::int32_t, 1> labels2, In<std::int32_t, 1> edges2, double decay,
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
    std::vector<mercer::WalkGraph> first, second;
    for (std::ptrdiff_t i = 0; i < A.count; ++i)
      first.emplace_back(A, i, labels.data(), edges.data());
    for (std::ptrdiff_t j = 0; j < (symmetric ? 0 : B.count); ++j)
      second.emplace_back(B, j, labels2.data(), edges2.data());
    const std::vector<mercer::WalkGraph>& others = symmetric ? first : second;
    return mercer::share(
        A.count, threads,
        [&](std::ptrdiff_t i, const mercer::Stop& stop) {
          mercer::CommonWalks walks;
          for (std::ptrdiff_t j = symmetric ? i : 0; j < B.count && !stop; ++j) {
            const double sum = walks.sum(first[i], others[j], decay);
            value[i * B.count + j] = sum;
            if (symmetric) value[j * B.count + i] = sum;
          }
        },
        interrupted);
  });
  return out;
}

// Σ_ij u_i v_j / (1 - decay s_i t_j) for every graph of two lists, from their eigenvalues: (n, m).
Out<double, 2> spectral_sums(In<std::int64_t, 1> offsets, In<double, 1> values,
                             In<double, 1> weights, In<std::int64_t, 1> offsets2,
                             In<double, 1> values2, In<double, 1> weights2, double decay,
                             bool symmetric, int threads) {
  require(values.shape(0) == weights.shape(0) && values2.shape(0) == weights2.shape(0),
          "a weight per eigenvalue");
  require_starts(offsets, values.shape(0));
  require_starts(offsets2, values2.shape(0));
  for (const auto& array : {values, weights, values2, weights2}) require_aligned(array);
  const std::ptrdiff_t n = offsets.shape(0) - 1, m = offsets2.shape(0) - 1;
  require(!symmetric || n == m, "the same graphs twice");
  auto out = new_array<double, 2>({std::size_t(n), std::size_t(m)});
  double* value = out.data();
  without_gil([&] {
    return mercer::share(
        n, threads,
        [&](std::ptrdiff_t i, const mercer::Stop& stop) {
          const std::int64_t a = offsets(i), rows = offsets(i + 1) - a;
          for (std::ptrdiff_t j = symmetric ? i : 0; j < m && !stop; ++j) {
            const std::int64_t b = offsets2(j), columns = offsets2(j + 1) - b;
            const double sum =
                mercer::spectral_sum(values.data() + a, weights.data() + a, rows,
                                     values2.data() + b, weights2.data() + b, columns, decay);
            value[i * m + j] = sum;
            if (symmetric) value[j * m + i] = sum;
          }
        },
        interrupted);
  });
  return out;
}

// Connected sets of 1 to size nodes of each graph by their patterns, those of size s in the columns
// from the sum of 2^(r (r - 1) / 2) over r < s.
Out<std::int64_t, 2> subgraph_counts(In<std::int64_t, 1> offsets, In<std::int64_t, 1> indptr,
                                     In<std::int32_t, 1> indices, int size, int threads) {
  const mercer::Graphs graphs = read_graphs(offsets, indptr, indices);
  require(size >= 1 && size <= mercer::Subgraphs::most_size, "sizes of 1 to 5");
  std::size_t width = 0;
  for (int s = 1; s <= size; ++s) width += std::size_t(1) << (s * (s - 1) / 2);
  auto out = new_array<std::int64_t, 2>({std::size_t(graphs.count), width});
  std::int64_t* counts = out.data();
  std::fill(counts, counts + graphs.count * width, 0);
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

mercer::SparseRows read_rows(const In<std::int64_t, 1>& indptr, const In<std::int32_t, 1>& indices,
                             const In<double, 1>& data, std::size_t width) {
  require(indptr.shape(0) >= 1, "starts of rows");
  const std::size_t count = indptr.shape(0) - 1;
  require(count < any_code, "fewer than 2^31 rows");
  require_starts(indptr, indices.shape(0));
  require_codes(indices, indices.shape(0), width);
  require_aligned(data);
  require(data.shape(0) == indices.shape(0), "a value per entry");
  return {std::ptrdiff_t(count), indptr.data(), indices.data(), data.data()};
}

// Σ_c x_c y_c, or Σ_c min(x_c, y_c), of every row x of the first and y of the second: (n, m). If they
// are the same rows, symmetric saves half the time.
Out<double, 2> sparse_gram(In<std::int64_t, 1> indptr, In<std::int32_t, 1> indices, In<double, 1> data,
                           In<std::int64_t, 1> indptr2, In<std::int32_t, 1> indices2, In<double, 1> data2,
                           std::size_t width, bool minimum, bool symmetric, int threads) {
  require(width <= any_code, "no more than 2^31 columns");
  const mercer::SparseRows A = read_rows(indptr, indices, data, width),
                           B = read_rows(indptr2, indices2, data2, width);
  require(!symmetric || A.count == B.count, "the same rows twice");
  auto out = new_array<double, 2>({std::size_t(A.count), std::size_t(B.count)});
  without_gil([&] {
    const mercer::SparseRows& other = symmetric ? A : B;
    return minimum ? mercer::sparse_gram<mercer::Minimum>(A, other, width, symmetric, out.data(),
                                                          threads, interrupted)
                   : mercer::sparse_gram<mercer::Product>(A, other, width, symmetric, out.data(),
                                                          threads, interrupted);
  });
  return out;
}

mercer::Trees read_trees(const In<std::int64_t, 1>& offsets, const In<std::int32_t, 1>& keys,
                         const In<std::int64_t, 1>& children, const In<std::int64_t, 1>& child) {
  require(offsets.shape(0) >= 1, "starts of trees");
  const std::size_t count = offsets.shape(0) - 1, nodes = keys.shape(0);
  require(nodes < any_code, "fewer than 2^31 nodes");
  require_starts(offsets, nodes);
  require(children.shape(0) == nodes + 1, "children of every node");
  require_starts(children, child.shape(0));
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
  std::vector<std::pair<std::int32_t, std::int64_t>> arities;
  for (const mercer::Trees* trees : {&A, &B})
    for (std::int64_t i = 0; i < trees->offsets[trees->count]; ++i)
      if (trees->keys[i] >= 0)
        arities.emplace_back(trees->keys[i], trees->children[i + 1] - trees->children[i]);
  std::sort(arities.begin(), arities.end());
  for (std::size_t k = 1; k < arities.size(); ++k)
    require(arities[k].first != arities[k - 1].first || arities[k].second == arities[k - 1].second,
            "one number of children per key");
}

// Sums over all pairs of matching nodes, (n, m): of whole productions, or with mu of partial ones.
Out<double, 2> tree_sums(In<std::int64_t, 1> offsets, In<std::int32_t, 1> keys, In<std::int64_t, 1> children,
                         In<std::int64_t, 1> child, In<std::int64_t, 1> offsets2, In<std::int32_t, 1> keys2,
                         In<std::int64_t, 1> children2, In<std::int64_t, 1> child2, double decay,
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
  module.def("spectral_sums", &spectral_sums, exactly("offsets"), exactly("values"),
             exactly("weights"), exactly("offsets2"), exactly("values2"), exactly("weights2"),
             nb::arg("decay"), nb::arg("symmetric"), nb::arg("threads"));
  module.def("subgraph_counts", &subgraph_counts, exactly("offsets"), exactly("indptr"),
             exactly("indices"), nb::arg("size"), nb::arg("threads"));
  module.def("sparse_gram", &sparse_gram, exactly("indptr"), exactly("indices"), exactly("data"),
             exactly("indptr2"), exactly("indices2"), exactly("data2"), nb::arg("width"),
             nb::arg("minimum"), nb::arg("symmetric"), nb::arg("threads"));
  module.def("tree_sums", &tree_sums, exactly("offsets"), exactly("keys"), exactly("children"),
             exactly("child"), exactly("offsets2"), exactly("keys2"), exactly("children2"),
             exactly("child2"), nb::arg("decay"), nb::arg("mu").none(), nb::arg("symmetric"),
             nb::arg("threads"));
}
