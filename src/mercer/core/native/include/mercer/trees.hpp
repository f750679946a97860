// Sums over pairs of matching nodes of two ordered trees, without recursion.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mercer/threads.hpp"

namespace mercer {

// Trees one after the other, their nodes in post-order and numbered through: a node's children,
// left to right, are child[children[i]] to child[children[i + 1] - 1].
struct Trees {
  std::ptrdiff_t count;
  const std::int64_t* offsets;   // (count + 1,)
  const std::int32_t* keys;      // (nodes,); only nodes with equal keys match, -1 matches nothing
  const std::int64_t* children;  // (nodes + 1,)
  const std::int64_t* child;     // (nodes - count,)
};

// The nodes of each tree sorted by key, so that the matching ones of two trees are found by merging.
class SortedTrees {
 public:
  explicit SortedTrees(const Trees& trees) : trees(trees), first_group_(trees.count + 1) {
    const std::int64_t n = trees.offsets[trees.count];
    rank.resize(n);
    member.resize(n);
    for (std::int64_t i = 0; i < n; ++i) member[i] = i;
    for (std::ptrdiff_t t = 0; t < trees.count; ++t) {
      const auto begin = member.begin() + trees.offsets[t],
                 end = member.begin() + trees.offsets[t + 1];
      std::stable_sort(begin, end, [&](std::int64_t i, std::int64_t j) {
        return trees.keys[i] < trees.keys[j];
      });
      for (auto at = begin; at != end;) {
        const std::int32_t key = trees.keys[*at];
        const auto from = at;
        for (; at != end && trees.keys[*at] == key; ++at) rank[*at] = std::int64_t(at - from);
        if (key >= 0) groups_.push_back({key, from - member.begin(), at - member.begin()});
      }
      first_group_[t + 1] = std::int64_t(groups_.size());
    }
  }

  struct Group {  // nodes member[from] to member[to - 1] have this key
    std::int32_t key;
    std::int64_t from, to;
  };
  const Group* begin(std::ptrdiff_t t) const { return groups_.data() + first_group_[t]; }
  const Group* end(std::ptrdiff_t t) const { return groups_.data() + first_group_[t + 1]; }

  Trees trees;
  std::vector<std::int64_t> rank, member;  // rank: the place among the nodes of its tree and key

 private:
  std::vector<Group> groups_;
  std::vector<std::int64_t> first_group_;
};

// delta(s, t) of matching nodes, from those of their children, and the sum over all pairs.
//
// The nodes of the first tree are visited in post-order. A node's row holds delta with every node
// of the second tree that has its key; rows lie on a stack, where those of its children are the
// topmost, and they give way to its own. So no more rows are held than wait for a parent.
class TreePair {
 public:
  template <class Delta>
  double sum(const SortedTrees& first, std::ptrdiff_t a, const SortedTrees& second,
             std::ptrdiff_t b, Delta& delta, const Stop& stop) {
    const std::int64_t start = first.trees.offsets[a], end = first.trees.offsets[a + 1];
    merge(first, a, second, b, start, end);
    first_ = &first;
    second_ = &second;
    start_ = start;
    at_.resize(end - start);
    std::int64_t top = 0;
    double total = 0;
    for (std::int64_t s = start; s < end && !stop; ++s) {
      const std::int64_t kids = first.trees.children[s], more = first.trees.children[s + 1];
      const std::int64_t below = kids == more ? top : at_[first.trees.child[kids] - start];
      const SortedTrees::Group* group = match_[s - start];
      const std::int64_t size = group ? group->to - group->from : 0;
      if (std::int64_t(rows_.size()) < top + size) rows_.resize(2 * (top + size));
      for (std::int64_t k = 0; k < size; ++k) {
        const double value = delta(*this, s, second.member[group->from + k]);
        rows_[top + k] = value;
        total += value;
      }
      std::copy(rows_.begin() + top, rows_.begin() + top + size, rows_.begin() + below);
      at_[s - start] = below;
      top = below + size;
    }
    return total;
  }

  // delta of two children whose rows are on the stack; zero where their keys differ.
  double below(std::int64_t s, std::int64_t t) const {
    const std::int32_t key = first_->trees.keys[s];
    if (key < 0 || key != second_->trees.keys[t]) return 0.0;
    return rows_[at_[s - start_] + second_->rank[t]];
  }
  const Trees& first() const { return first_->trees; }
  const Trees& second() const { return second_->trees; }

 private:
  void merge(const SortedTrees& first, std::ptrdiff_t a, const SortedTrees& second,
             std::ptrdiff_t b, std::int64_t start, std::int64_t end) {
    match_.assign(end - start, nullptr);
    const SortedTrees::Group *x = first.begin(a), *y = second.begin(b);
    while (x != first.end(a) && y != second.end(b)) {
      if (x->key < y->key) {
        ++x;
      } else if (y->key < x->key) {
        ++y;
      } else {
        for (std::int64_t k = x->from; k < x->to; ++k) match_[first.member[k] - start] = y;
        ++x;
        ++y;
      }
    }
  }

  const SortedTrees *first_ = nullptr, *second_ = nullptr;
  std::int64_t start_ = 0;
  std::vector<const SortedTrees::Group*> match_;
  std::vector<std::int64_t> at_;
  std::vector<double> rows_;
};

// decay times the product over the children of 1 + delta: fragments with all children or none.
struct WholeProductions {
  double decay;
  double operator()(const TreePair& pair, std::int64_t s, std::int64_t t) const {
    const std::int64_t* a = pair.first().child + pair.first().children[s];
    const std::int64_t* end = pair.first().child + pair.first().children[s + 1];
    const std::int64_t* b = pair.second().child + pair.second().children[t];
    double value = decay;
    for (; a != end; ++a, ++b) value *= 1 + pair.below(*a, *b);
    return value;
  }
};

// mu (decay² + the sum over common subsequences of the children): fragments with any children.
struct PartialProductions {
  double decay, mu;
  std::vector<double> ending, before;  // over the children of t
  double operator()(const TreePair& pair, std::int64_t s, std::int64_t t) {
    const Trees &S = pair.first(), &T = pair.second();
    const std::int64_t *first = T.child + T.children[t], size = T.children[t + 1] - T.children[t];
    ending.assign(size, 0.0);
    before.assign(size, 0.0);
    double total = decay * decay;
    for (std::int64_t k = S.children[s]; size > 0 && k < S.children[s + 1]; ++k) {
      double earlier = 0;
      for (std::int64_t j = 0; j < size; ++j) {
        before[j] = decay * before[j] + ending[j];
        ending[j] = pair.below(S.child[k], first[j]) * (1 + earlier);
        earlier = decay * earlier + before[j];
        total += ending[j];
      }
    }
    return mu * total;
  }
};

// out: (A.count, B.count); with symmetric A and B are the same, and half of it is worked out.
template <class Delta>
bool tree_sums(const SortedTrees& A, const SortedTrees& B, const Delta& delta, bool symmetric,
               double* out, int threads, Interrupted interrupted) {
  const std::ptrdiff_t n = A.trees.count, m = B.trees.count;
  return share(
      n, threads,
      [&](std::ptrdiff_t i, const Stop& stop) {
        TreePair pair;
        Delta own = delta;
        for (std::ptrdiff_t j = symmetric ? i : 0; j < m && !stop; ++j) {
          out[i * m + j] = pair.sum(A, i, B, j, own, stop);
          if (symmetric) out[j * m + i] = out[i * m + j];
        }
      },
      interrupted);
}

}  // namespace mercer
