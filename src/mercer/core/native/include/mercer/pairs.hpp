// An expression over two sets of points: its tiles, and how they are shared out as tasks.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "mercer/bits.hpp"
#include "mercer/program.hpp"
#include "mercer/statistics.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Columns worked on at a time, so that their packed panels stay in the second-level cache.
constexpr std::ptrdiff_t block_bytes = 192 * 1024;
// Blocks of rows per task: enough to use a block of columns many times.
constexpr int row_blocks_per_task = 16;
// Where the rows give fewer tasks than this, the columns are divided as well, into parts of at least
// so many tiles. Both go by the shape alone, so that sums do not depend on the number of threads.
constexpr std::ptrdiff_t enough_tasks = 64, tiles_per_part = 64;

// An expression over two sets of points, with everything its tiles need.
template <class T>
struct Pairs {
  Program program;
  std::vector<Leaf<T>> leaves;
  std::vector<const T*> row_terms, column_terms;  // (n,) and (m,), by the program's numbering
  std::ptrdiff_t n = 0, m = 0;

  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  static_assert(C == row_vectors * W);

  std::ptrdiff_t row_blocks() const { return (n + R - 1) / R; }
  std::ptrdiff_t column_tiles() const { return (m + C - 1) / C; }

  // Pack the columns of every statistic, and pad what is read past the end.
    bool prepare(int threads, Interrupted interrupted) {
    prepare_rows();
    auto columns = std::make_shared<Columns>();
    columns->norms.resize(leaves.size());
    for (std::size_t l = 0; l < leaves.size(); ++l)
      if (leaves[l].needs_norms())
        columns->norms[l] = padded(leaves[l].Y_norms, m, column_tiles() * C);
    for (const Group& group : groups_) {
      columns->points.push_back(allocate<T>(column_tiles() * C * group.length()));
      T* packed = columns->points.back().get();
      const bool done = share(
          column_tiles(), threads,
          [&](std::ptrdiff_t t, const Stop&) {
            group.pack(group.Y, t * C, C, m, Geometry<T>::panel, packed + t * C * group.length());
          },
          interrupted);
      if (!done) return false;
    }
    for (const T* term : column_terms)
      columns->terms.push_back(padded(term, m, column_tiles() * C));
    columns_ = std::move(columns);
    return true;
  }
  bool prepared() const { return bool(columns_); }

  // The same expression for some of the rows, ready: the columns that were prepared serve all parts.
  Pairs part(const std::int64_t* rows, std::ptrdiff_t count) const {
    Pairs some;
    std::map<std::pair<const T*, std::ptrdiff_t>, const T*> known;
    const auto take = [&](const T* from, std::ptrdiff_t d) -> const T* {
      if (!from) return nullptr;
      const auto [found, is_new] = known.try_emplace({from, d});
      if (is_new) {
        T* to = some.taken_.emplace_back(allocate<T>(count * d)).get();
        for (std::ptrdiff_t i = 0; i < count; ++i) std::copy_n(from + rows[i] * d, d, to + i * d);
        found->second = to;
      }
      return found->second;
    };
    some.program = program;
    some.leaves = leaves;
    for (Leaf<T>& leaf : some.leaves) {
      leaf.X = take(leaf.X, leaf.d);
      leaf.X_given = take(leaf.X_given, leaf.d);
      leaf.X_norms = take(leaf.X_norms, 1);
      leaf.block = take(leaf.block, m);
      leaf.n = count;
    }
    for (const T* term : row_terms) some.row_terms.push_back(take(term, 1));
    some.column_terms = column_terms;
    some.n = count;
    some.m = m;
    some.columns_ = columns_;
    some.prepare_rows();
    return some;
  }

  // The same expression for other rows, n of them, ready; their leaves differ from these in what is of
  // the rows. Columns that were prepared serve both.
  Pairs with_rows(std::vector<Leaf<T>> others, std::vector<const T*> terms, std::ptrdiff_t count) const {
    Pairs some;
    some.program = program;
    some.leaves = std::move(others);
    some.row_terms = std::move(terms);
    some.column_terms = column_terms;
    some.n = count;
    some.m = m;
    some.prepare_rows();
    // Which statistics share packed columns depends on which of them have the same rows.
    if (std::equal(groups_.begin(), groups_.end(), some.groups_.begin(), some.groups_.end(),
                   [](const Group& a, const Group& b) {
                     return a.Y == b.Y && a.d == b.d && a.sums == b.sums && a.paired == b.paired;
                   }))
      some.columns_ = columns_;
    return some;
  }

  // Room for one thread: packed rows of each group, terms of rows, each number spread over a vector,
  // and the program's registers.
  struct Scratch {
    std::vector<Buffer<T>> rows, terms;
    Runner<T> runner;
  };

  // For the rows of some blocks, packed.
  Scratch scratch(std::ptrdiff_t first_block, std::ptrdiff_t blocks) const {
    Scratch s{{}, {}, Runner<T>(program, R, row_terms.size(), column_terms.size())};
    for (const Group& group : groups_) {
      s.rows.push_back(allocate<T>(blocks * R * group.length()));
      group.pack(group.X, first_block * R, blocks * R, n, R, s.rows.back().get());
    }
    for (const T* term : row_terms) {
      s.terms.push_back(allocate<T>(blocks * R * W));
      for (std::ptrdiff_t i = 0; i < blocks * R; ++i)
        store<T>(s.terms.back().get() + i * W,
                 broadcast<T>(term[std::min(first_block * R + i, n - 1)]));
    }
    return s;
  }

  // The values of one tile: (R, C), row by row. `local` counts blocks from the first one packed.
  T* tile(Scratch& s, std::ptrdiff_t block, std::ptrdiff_t local,
          std::ptrdiff_t column_tile) const {
    const std::ptrdiff_t row = block * R, column = column_tile * C;
    sums(s, local, column_tile);
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      T* out = s.runner.at(int(l));
      if (leaves[l].block) copy_block<T>(leaves[l], row, column, out);
      if (leaves[l].needs_norms())
        finish_sqdist<T>(leaves[l], row, column, X_norms_[l].get() + row,
                         columns_->norms[l].get() + column, s.runner.at(dots_of_[l]), out);
    }
    for (std::size_t k = 0; k < row_terms.size(); ++k)
      s.runner.row_terms[k] = s.terms[k].get() + local * R * W;
    for (std::size_t k = 0; k < column_terms.size(); ++k)
      s.runner.column_terms[k] = columns_->terms[k].get() + column;
    return s.runner.run();
  }

  // What is summed over the features, for one tile, in the registers of the statistics. Where
  // distances are asked for, these are dot products.
  void sums(Scratch& s, std::ptrdiff_t local, std::ptrdiff_t column_tile) const {
    constexpr int P = Geometry<T>::panel;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      const T* X = s.rows[g].get() + local * R * group.length();
      const T* Y = columns_->points[g].get() + column_tile * C * group.length();
      T* out[most_sums];
      for (std::size_t k = 0; k < group.leaves.size(); ++k) out[k] = s.runner.at(group.leaves[k]);
      for (int p = 0; p < Geometry<T>::panels; ++p, Y += P * group.length())
        if (group.sums)
          group.compute(X, Y, group.d, out, p * P, T(1));
        else
          alone(leaves[group.leaves[0]].kind, X, Y, group.d, out[0] + p * P);
    }
  }

  // One panel of a statistic that goes by itself.
  static void alone(Statistic kind, const T* X, const T* Y, std::ptrdiff_t d, T* out) {
    counts_bits(kind) ? bit_panel<T>(kind, X, Y, d, out) : compute_panel<T>(kind, X, Y, d, out);
  }

  // c, for the Gaussian exp(c |x - z|^2); zero for anything else.
  double gaussian() const {
    const auto& all = program.instructions();
    const bool is = all.size() == 1 && all[0].op == Op::exp_negative && all[0].a == 0 &&
                    all[0].out == program.result && leaves.size() == 1 &&
                    leaves[0].kind == Statistic::sqdist && !leaves[0].block;
    return is ? all[0].c : 0.0;
  }
  const T* X_norms() const { return X_norms_[0].get(); }
  const T* Y_norms() const { return columns_->norms[0].get(); }

  // Column tiles that fit the second-level cache together.
  std::ptrdiff_t tiles_at_once() const {
    std::ptrdiff_t bytes = 0;
    for (const Group& group : groups_) bytes += C * group.length() * std::ptrdiff_t(sizeof(T));
    // At most so many are summed in T before the sum goes on in double.
    constexpr std::ptrdiff_t most = 16;
    return std::clamp<std::ptrdiff_t>(block_bytes / std::max<std::ptrdiff_t>(bytes, 1), 1, most);
  }

 private:
  // Statistics of the same points: those summed over the features are computed in one pass.
  struct Group {
    const T* X;
    const T* Y;
    std::ptrdiff_t d;
    unsigned sums;            // 0 for a statistic that goes by itself
    std::vector<int> leaves;  // in the order of the sums; a dot product may serve two statistics
    SumsOfPanel<T> compute = nullptr;
    bool paired = false;  // dot products of paired features

    std::ptrdiff_t length() const { return paired ? paired_length(d) : d; }
    void pack(const T* points, std::ptrdiff_t first, std::ptrdiff_t count, std::ptrdiff_t n, int step,
              T* out) const {
      (paired ? pack_paired<T> : mercer::pack<T>)(points, first, count, n, d, step, out);
    }
  };

  // What is read of the columns, tile by tile.
  struct Columns {
    std::vector<Buffer<T>> points, norms, terms;  // by group, by statistic, by term
  };

  void prepare_rows() {
    gather();
    X_norms_.resize(leaves.size());
    for (std::size_t l = 0; l < leaves.size(); ++l)
      if (leaves[l].needs_norms()) X_norms_[l] = padded(leaves[l].X_norms, n, row_blocks() * R);
  }

  void gather() {
    groups_.clear();
    dots_of_.resize(leaves.size());
    // Distances last, so that they find the dot products they are made from.
    for (const bool distances : {false, true})
      for (std::size_t l = 0; l < leaves.size(); ++l) {
        const Leaf<T>& leaf = leaves[l];
        dots_of_[l] = int(l);
        if (!leaf.block && (leaf.kind == Statistic::sqdist) == distances) join(leaf, int(l));
      }
    for (Group& group : groups_) {
      if (!group.sums) continue;
      group.paired = group.sums == of_dot && leaves[group.leaves[0]].kind == Statistic::sqdist &&
                     group.d >= paired_features && adds_beside_products();
      group.compute = group.paired ? &paired_panel<T> : sums_of_panel<T>(group.sums);
    }
  }

  void join(const Leaf<T>& leaf, int l) {
    const unsigned sum = sum_of(leaf.kind, leaf.d);
    for (Group& group : groups_) {
      if (!sum || !group.sums || group.X != leaf.X || group.Y != leaf.Y || group.d != leaf.d)
        continue;
      const int place = std::popcount(group.sums & (sum - 1));
      if (!(group.sums & sum)) {
        if (!go_together(group.sums | sum)) continue;
        group.sums |= sum;
        group.leaves.insert(group.leaves.begin() + place, l);
        return;
      }
      if (leaf.needs_norms() && leaves[group.leaves[place]].kind == Statistic::dot) {
        dots_of_[l] = group.leaves[place];
        return;
      }
    }
    groups_.push_back({leaf.X, leaf.Y, leaf.d, sum, {l}});
  }

  static Buffer<T> padded(const T* values, std::ptrdiff_t n, std::ptrdiff_t size) {
    Buffer<T> out = allocate<T>(size);
    for (std::ptrdiff_t i = 0; i < size; ++i) out[i] = values[std::min(i, n - 1)];
    return out;
  }

  std::vector<Group> groups_;
  std::vector<int> dots_of_;  // the register with the dot products that distances are made from
  std::vector<Buffer<T>> X_norms_;
  std::shared_ptr<const Columns> columns_;
  std::vector<Buffer<T>> taken_;  // rows of a part
};

// The pairs as tasks: some blocks of rows with some tiles of columns.
struct Tasks {
  std::ptrdiff_t blocks, tiles, blocks_per_task, parts;

  Tasks(std::ptrdiff_t blocks, std::ptrdiff_t tiles, std::ptrdiff_t blocks_per_task)
      : blocks(blocks), tiles(tiles), blocks_per_task(blocks_per_task) {
    const std::ptrdiff_t wanted = (enough_tasks + groups() - 1) / groups();
    parts = std::clamp<std::ptrdiff_t>(tiles / tiles_per_part, 1, wanted);
  }

  std::ptrdiff_t groups() const { return (blocks + blocks_per_task - 1) / blocks_per_task; }
  std::ptrdiff_t count() const { return groups() * parts; }

  struct Range {
    std::ptrdiff_t part, first_block, last_block, first_tile, last_tile;
  };
  Range operator[](std::ptrdiff_t task) const {
    const std::ptrdiff_t part = task % parts, first = task / parts * blocks_per_task;
    return {part, first, std::min(first + blocks_per_task, blocks), tiles * part / parts,
            tiles * (part + 1) / parts};
  }
};

}  // namespace mercer
