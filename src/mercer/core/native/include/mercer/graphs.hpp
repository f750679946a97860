// Labelled graphs, many at a time: refined labels, distances, common walks, small subgraphs.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mercer/hashing.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Undirected graphs one after the other, their nodes numbered through. The nodes of graph g are
// offsets[g] to offsets[g + 1] - 1, and the neighbours of node i are indices[indptr[i]] to
// indices[indptr[i + 1] - 1], in increasing order, all of the same graph.
struct Graphs {
  std::ptrdiff_t count;          // graphs
  const std::int64_t* offsets;   // (count + 1,)
  const std::int64_t* indptr;    // (nodes + 1,)
  const std::int32_t* indices;   // (ends,), each edge at both its ends

  std::int64_t nodes() const { return offsets[count]; }
  std::int64_t ends() const { return indptr[nodes()]; }
  std::int64_t size(std::ptrdiff_t g) const { return offsets[g + 1] - offsets[g]; }
};

// Names of 128 bits, mixed as MurmurHash3 (x64, 128 bits) mixes blocks of 16 bytes.
struct Name {
  std::uint64_t a, b;
};

inline std::uint64_t rotated(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

inline std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

inline void absorb(Name& h, Name k) {
  constexpr std::uint64_t c = 0x87c37b91114253d5ULL, d = 0x4cf5ad432745937fULL;
  h.a = (rotated(h.a ^ (rotated(k.a * c, 31) * d), 27) + h.b) * 5 + 0x52dce729;
  h.b = (rotated(h.b ^ (rotated(k.b * d, 33) * c), 31) + h.a) * 5 + 0x38495ab5;
}

// The name of two names in this order, together with a number.
inline Name mixed(Name first, Name second, std::uint64_t number) {
  Name h{number, number};
  absorb(h, first);
  absorb(h, second);
  h.a ^= 32;
  h.b ^= 32;
  h.a += h.b;
  h.b += h.a;
  h.a = scrambled(h.a);
  h.b = scrambled(h.b);
  h.a += h.b;
  h.b += h.a;
  return h;
}

constexpr std::uint64_t of_edge = ~std::uint64_t(0);  // no node has so many neighbours

// One round of Weisfeiler and Lehman: a node's next name is made of its own, of how many neighbours
// it has, and of the sum of what they add, each by its name and that of the edge between.
// names: (ends,) codes into edge_names, or null where edge_names has a single entry
inline bool refine(const Graphs& graphs, const Name* before, const std::int32_t* edge_codes,
                   const Name* edge_names, Name* after, int threads, Interrupted interrupted) {
  constexpr std::int64_t block = 1 << 14;
  const std::int64_t n = graphs.nodes();
  const std::ptrdiff_t blocks = (n + block - 1) / block;
  std::vector<Name> added(edge_codes ? 0 : n);
  if (!edge_codes) {
    const bool done = share(
        blocks, threads,
        [&](std::ptrdiff_t t, const Stop&) {
          for (std::int64_t i = t * block; i < std::min(n, (t + 1) * block); ++i)
            added[i] = mixed(edge_names[0], before[i], of_edge);
        },
        interrupted);
    if (!done) return false;
  }
  return share(
      blocks, threads,
      [&](std::ptrdiff_t t, const Stop&) {
        for (std::int64_t i = t * block; i < std::min(n, (t + 1) * block); ++i) {
          Name sum{0, 0};
          for (std::int64_t e = graphs.indptr[i]; e < graphs.indptr[i + 1]; ++e) {
            const std::int32_t j = graphs.indices[e];
            const Name one =
                edge_codes ? mixed(edge_names[edge_codes[e]], before[j], of_edge) : added[j];
            sum.a += one.a;
            sum.b += one.b;
          }
          after[i] = mixed(before[i], sum, graphs.indptr[i + 1] - graphs.indptr[i]);
        }
      },
      interrupted);
}

// Pairs of nodes by the labels at their ends and their distance, counted.
struct PathCounts {
  std::vector<std::array<std::uint32_t, 3>> keys;  // codes of both ends and the distance
  std::vector<std::int64_t> counts;
};

// Counts in a table of whole numbers that grows with them.
class Tally {
 public:
  Tally() { clear(); }
  void clear() {
    slots_.assign(64, {empty, 0});
    used_ = 0;
  }
  void add(std::uint64_t key, std::int64_t by = 1) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = find(slots_, key);
    if (slot.key == empty) {
      slot.key = key;
      ++used_;
    }
    slot.count += by;
  }
  // (key, count) in increasing order of keys
  std::vector<std::pair<std::uint64_t, std::int64_t>> sorted() const {
    std::vector<std::pair<std::uint64_t, std::int64_t>> found;
    for (const Slot& slot : slots_)
      if (slot.key != empty) found.emplace_back(slot.key, slot.count);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t(0);
  struct Slot {
    std::uint64_t key;
    std::int64_t count;
  };
  static Slot& find(std::vector<Slot>& slots, std::uint64_t key) {
    const std::size_t mask = slots.size() - 1;
    std::size_t at = scrambled(key ^ hash_seed) & mask;
    while (slots[at].key != empty && slots[at].key != key) at = (at + 1) & mask;
    return slots[at];
  }
  void grow() {
    std::vector<Slot> larger(4 * slots_.size(), {empty, 0});
    for (const Slot& slot : slots_)
      if (slot.key != empty) find(larger, slot.key) = slot;
    slots_.swap(larger);
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

// Ordered pairs of different nodes of one graph that a path joins, by the codes of their labels and
// the number of edges of a shortest one.
inline void count_paths(const Graphs& graphs, std::ptrdiff_t g, const std::int32_t* codes,
                        PathCounts& found, const Stop& stop) {
  const std::int64_t start = graphs.offsets[g], n = graphs.size(g);
  std::vector<std::int32_t> labels(codes + start, codes + start + n);
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  const std::uint64_t L = labels.size();
  std::vector<std::uint32_t> local(n);
  for (std::int64_t i = 0; i < n; ++i)
    local[i] = std::uint32_t(std::lower_bound(labels.begin(), labels.end(), codes[start + i]) -
                             labels.begin());
  // Keys (a L + b) n + d: small ones index an array of counts.
  constexpr std::uint64_t most = 1 << 16;
  const bool few = L * L <= most && L * L * std::uint64_t(n) <= most;
  std::vector<std::int64_t> dense(few ? L * L * n : 0);
  Tally sparse;
  std::vector<std::int32_t> distance(n, -1), queue(n);
  for (std::int64_t source = 0; source < n && !stop; ++source) {
    std::int64_t head = 0, tail = 0;
    queue[tail++] = std::int32_t(source);
    distance[source] = 0;
    while (head < tail) {
      const std::int32_t i = queue[head++];
      for (std::int64_t e = graphs.indptr[start + i]; e < graphs.indptr[start + i + 1]; ++e) {
        const std::int32_t j = std::int32_t(graphs.indices[e] - start);
        if (distance[j] >= 0) continue;
        distance[j] = distance[i] + 1;
        queue[tail++] = j;
      }
    }
    for (std::int64_t k = 1; k < tail; ++k) {
      const std::int32_t j = queue[k];
      const std::uint64_t key = (local[source] * L + local[j]) * n + distance[j];
      if (few) ++dense[key];
      else sparse.add(key);
    }
    for (std::int64_t k = 0; k < tail; ++k) distance[queue[k]] = -1;
  }
  const auto put = [&](std::uint64_t key, std::int64_t count) {
    const std::uint64_t ends = key / n;
    found.keys.push_back({std::uint32_t(labels[ends / L]), std::uint32_t(labels[ends % L]),
                          std::uint32_t(key % n)});
    found.counts.push_back(count);
  };
  if (few) {
    for (std::uint64_t key = 0; key < dense.size(); ++key)
      if (dense[key]) put(key, dense[key]);
  } else {
    for (const auto& [key, count] : sparse.sorted()) put(key, count);
  }
}

// A graph made ready for common walks: its nodes renumbered in classes of equal labels, each of
// them padded to whole vectors, and for each label of edges the neighbours along them.
struct WalkGraph {
  static constexpr std::int32_t lanes = 8;
  struct Class {
    std::int32_t label, first, size, start;  // the first node, and the first padded place
    std::int32_t width() const { return (size + lanes - 1) / lanes * lanes; }
  };
  struct Edges {
    std::int32_t label;
    std::vector<std::int32_t> starts, nodes, places;  // neighbours of node i from starts[i]
  };

  WalkGraph(const Graphs& graphs, std::ptrdiff_t g, const std::int32_t* labels,
            const std::int32_t* edge_labels) {
    const std::int64_t from = graphs.offsets[g], to = graphs.offsets[g + 1];
    std::vector<std::int64_t> order(to - from);
    for (std::int64_t i = from; i < to; ++i) order[i - from] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t i, std::int64_t j) { return labels[i] < labels[j]; });
    std::vector<std::int32_t> node(order.size()), place(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::int32_t label = labels[order[k]];
      if (classes.empty() || classes.back().label != label) {
        if (!classes.empty()) padded += classes.back().width();
        classes.push_back({label, std::int32_t(k), 0, padded});
      }
      class_of.push_back(std::int32_t(classes.size()) - 1);
      node[order[k] - from] = std::int32_t(k);
      place[order[k] - from] = padded + classes.back().size++;
    }
    if (!classes.empty()) padded += classes.back().width();
    std::vector<std::int32_t> kinds(edge_labels + graphs.indptr[from],
                                    edge_labels + graphs.indptr[to]);
    std::sort(kinds.begin(), kinds.end());
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    for (const std::int32_t kind : kinds) {
      edges.push_back({kind, {0}, {}, {}});
      for (const std::int64_t i : order) {
        for (std::int64_t e = graphs.indptr[i]; e < graphs.indptr[i + 1]; ++e) {
          if (edge_labels[e] != kind) continue;
          edges.back().nodes.push_back(node[graphs.indices[e] - from]);
          edges.back().places.push_back(place[graphs.indices[e] - from]);
        }
        edges.back().starts.push_back(std::int32_t(edges.back().nodes.size()));
      }
    }
  }

  std::vector<Class> classes;  // in increasing order of labels
  std::vector<Edges> edges;    // in increasing order of labels
  std::vector<std::int32_t> class_of;
  std::int32_t padded = 0;
};

// The walks that two labelled graphs have in common.
//
// X holds a number for every pair of nodes with equal labels, row by row for the nodes v of the
// second graph; (W X)[v, u] is the sum of X[v', u'] over the neighbours v' of v and u' of u along
// edges with equal labels. W is never formed.
class CommonWalks {
 public:
  // Σ_k decay^k 1ᵀ W^k 1 by conjugate gradients for (I - decay W) x = 1, NaN where they do not end.
  // From x = 0 they add α rᵀr to 1ᵀx in a step, and what is still to come decays with rᵀr.
  double sum(const WalkGraph& A, const WalkGraph& B, double decay) {
    load(A, B);
    const std::size_t size = p_.size();
    r_ = p_;
    w_.resize(size);
    double rr = total_, value = 0;
    const std::int64_t most = 10 * std::int64_t(total_) + 100;
    for (std::int64_t step = 0; rr > 0; ++step) {
      if (step == most) return std::numeric_limits<double>::quiet_NaN();
      apply();
      for (std::size_t k = 0; k < size; ++k) w_[k] = p_[k] - decay * w_[k];
      const double curvature = dot(p_, w_);
      if (!(curvature > 0)) return std::numeric_limits<double>::quiet_NaN();
      const double alpha = rr / curvature;
      value += alpha * rr;
      for (std::size_t k = 0; k < size; ++k) r_[k] -= alpha * w_[k];
      const double next = dot(r_, r_), beta = next / rr;
      if (alpha * next <= 1e-15 * value * (1 - beta)) break;
      for (std::size_t k = 0; k < size; ++k) p_[k] = r_[k] + beta * p_[k];
      rr = next;
    }
    return value;
  }

 private:
  static constexpr std::int32_t lanes = WalkGraph::lanes;

  // Which class of the first graph each class of the second has the label of, where the rows of X
  // are, and p = 1 with zeros in the padding.
  void load(const WalkGraph& A, const WalkGraph& B) {
    a_ = &A;
    b_ = &B;
    match_.assign(B.classes.size(), nullptr);
    for (std::size_t i = 0, j = 0; i < A.classes.size() && j < B.classes.size();) {
      if (A.classes[i].label < B.classes[j].label) ++i;
      else if (B.classes[j].label < A.classes[i].label) ++j;
      else match_[j++] = &A.classes[i++];
    }
    row_.resize(B.class_of.size());
    p_.clear();
    total_ = 0;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      row_[v] = p_.size();
      const WalkGraph::Class* match = match_[B.class_of[v]];
      if (!match) continue;
      p_.resize(p_.size() + match->width(), 0.0);
      std::fill_n(p_.begin() + row_[v], match->size, 1.0);
      total_ += match->size;
    }
    z_.resize(A.padded);
  }

  // w = W p
  void apply() {
    std::fill(w_.begin(), w_.end(), 0.0);
    for (auto a = a_->edges.begin(), b = b_->edges.begin();
         a != a_->edges.end() && b != b_->edges.end();) {
      if (a->label < b->label) ++a;
      else if (b->label < a->label) ++b;
      else walk(*a++, *b++);
    }
  }

  void walk(const WalkGraph::Edges& a, const WalkGraph::Edges& b) {
    for (std::size_t v = 0; v < row_.size(); ++v) {
      const WalkGraph::Class* own = match_[b_->class_of[v]];
      if (!own || b.starts[v] == b.starts[v + 1]) continue;
      std::fill(z_.begin(), z_.end(), 0.0);
      for (std::int32_t e = b.starts[v]; e < b.starts[v + 1]; ++e) {
        const std::int32_t near = b.nodes[e];
        const WalkGraph::Class* match = match_[b_->class_of[near]];
        if (!match) continue;
        const double* from = p_.data() + row_[near];
        double* to = z_.data() + match->start;
        for (std::int32_t k = 0; k < match->width(); k += lanes)
          for (std::int32_t l = 0; l < lanes; ++l) to[k + l] += from[k + l];
      }
      double* out = w_.data() + row_[v];
      const double* z = z_.data();
      std::int32_t e = a.starts[own->first];
      for (std::int32_t k = 0; k < own->size; ++k) {
        const std::int32_t end = a.starts[own->first + k + 1];
        double sum = 0;
        for (; e < end; ++e) sum += z[a.places[e]];
        out[k] += sum;
      }
    }
  }

  // In partial sums, so that few are long.
  static double dot(const std::vector<double>& x, const std::vector<double>& y) {
    constexpr std::size_t block = 128;
    double total = 0;
    for (std::size_t from = 0; from < x.size(); from += block) {
      const std::size_t to = std::min(x.size(), from + block);
      double sums[lanes] = {}, sum = 0;
      for (std::size_t k = from; k < to; k += lanes)
        for (std::int32_t l = 0; l < lanes; ++l) sums[l] += x[k + l] * y[k + l];
      for (std::int32_t l = 0; l < lanes; ++l) sum += sums[l];
      total += sum;
    }
    return total;
  }

  const WalkGraph *a_ = nullptr, *b_ = nullptr;
  std::vector<const WalkGraph::Class*> match_;  // one per class of the second graph
  std::vector<std::size_t> row_;                // where the row of each of its nodes starts
  double total_ = 0;
  std::vector<double> p_, r_, w_, z_;
};

// The same for two graphs with a single label, from their eigenvalues s, t and what (1ᵀu)² are.
inline double spectral_sum(const double* s, const double* u, std::int64_t n, const double* t,
                           const double* v, std::int64_t m, double decay) {
  constexpr int lanes = 8;  // so many partial sums
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sums[lanes] = {};
    const double c = decay * s[i];
    std::int64_t j = 0;
    for (; j + lanes <= m; j += lanes)
      for (int k = 0; k < lanes; ++k) sums[k] += v[j + k] / (1 - c * t[j + k]);
    for (; j < m; ++j) sums[0] += v[j] / (1 - c * t[j]);
    double sum = 0;
    for (int k = 0; k < lanes; ++k) sum += sums[k];
    total += u[i] * sum;
  }
  return total;
}

// Connected induced subgraphs of 1 to most_size nodes, counted by pattern: one bit for each pair of
// their nodes in the order in which they were met.
class Subgraphs {
 public:
  static constexpr int most_size = 5;

  // out: one array for each size 1..size, of 2^(size (size - 1) / 2) counts
  void count(const Graphs& graphs, std::ptrdiff_t g, int size, std::int64_t* const* out,
             const Stop& stop) {
    graphs_ = &graphs;
    size_ = size;
    out_ = out;
    const std::int64_t start = graphs.offsets[g], end = graphs.offsets[g + 1];
    near_.assign(end - start, 0);
    start_ = start;
    for (std::int64_t v = start; v < end && !stop; ++v) {
      root_ = v;
      set_[0] = v;
      ++out_[0][0];
      if (size == 1) continue;
      std::vector<std::int64_t>& ahead = ahead_[1];
      ahead.clear();
      near_[v - start] = 1;
      meet(v, ahead);
      grow<1>(0);
      forget(ahead, 0);
      near_[v - start] = 0;
    }
  }

 private:
  // Neighbours of v beyond the root that were not near the set so far join those ahead.
  void meet(std::int64_t v, std::vector<std::int64_t>& ahead) {
    for (std::int64_t e = graphs_->indptr[v]; e < graphs_->indptr[v + 1]; ++e) {
      const std::int64_t u = graphs_->indices[e];
      if (u > root_ && !near_[u - start_]) {
        near_[u - start_] = 1;
        ahead.push_back(u);
      }
    }
  }
  void forget(const std::vector<std::int64_t>& ahead, std::size_t from) {
    for (std::size_t k = from; k < ahead.size(); ++k) near_[ahead[k] - start_] = 0;
  }

  // Sets of s nodes whose pattern is known: each of those ahead joins, and then none before it.
  template <int s>
  void grow(std::uint32_t pattern) {
    const std::vector<std::int64_t>& ahead = ahead_[s];
    for (std::size_t k = 0; k < ahead.size(); ++k) {
      const std::int64_t v = ahead[k];
      std::uint32_t bits = pattern;
      for (int i = 0; i < s; ++i)
        if (adjacent(set_[i], v)) bits |= 1u << (s * (s - 1) / 2 + i);
      ++out_[s][bits];
      if constexpr (s + 1 < most_size) {
        if (s + 1 == size_) continue;
        set_[s] = v;
        std::vector<std::int64_t>& next = ahead_[s + 1];
        next.assign(ahead.begin() + k + 1, ahead.end());
        const std::size_t old = next.size();
        meet(v, next);
        grow<s + 1>(bits);
        forget(next, old);
      }
    }
  }

  bool adjacent(std::int64_t u, std::int64_t v) const {
    const std::int32_t* first = graphs_->indices + graphs_->indptr[u];
    const std::int32_t* last = graphs_->indices + graphs_->indptr[u + 1];
    if (last - first > 16) return std::binary_search(first, last, std::int32_t(v));
    return std::find(first, last, std::int32_t(v)) != last;
  }

  const Graphs* graphs_ = nullptr;
  int size_ = 0;
  std::int64_t* const* out_ = nullptr;
  std::int64_t start_ = 0, root_ = 0;
  std::int64_t set_[most_size] = {};
  std::vector<std::uint8_t> near_;
  std::vector<std::int64_t> ahead_[most_size];
};

}  // namespace mercer
