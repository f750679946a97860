// Gram matrices, their products and reductions, tile by tile and never stored unless asked for.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>

#include "mercer/gaussian.hpp"
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

template <class T>
struct AlignedDelete {
  void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
template <class T>
using Buffer = std::unique_ptr<T[], AlignedDelete<T>>;

template <class T>
Buffer<T> allocate(std::ptrdiff_t size) {
  return Buffer<T>(static_cast<T*>(::operator new[](std::max<std::ptrdiff_t>(size, 1) * sizeof(T),
                                                    std::align_val_t(64))));
}

// An expression over two sets of points, with everything its tiles need.
template <class T>
struct Pairs {
  Program program;
  std::vector<Leaf<T>> leaves;
  std::vector<const T*> row_terms, column_terms;  // (n,) and (m,), by the program's numbering
  std::ptrdiff_t n = 0, m = 0;

  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;

  std::ptrdiff_t row_blocks() const { return (n + R - 1) / R; }
  std::ptrdiff_t column_tiles() const { return (m + C - 1) / C; }

  // Pack the columns of every statistic, and pad what is read past the end.
  template <class Interrupted>
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

  // Room for one thread: packed rows of each group, and the program's registers.
  struct Scratch {
    std::vector<Buffer<T>> rows;
    Buffer<T> registers;
    std::vector<const T*> rows_of, columns_of;
  };

  // For the rows of some blocks, packed.
  Scratch scratch(std::ptrdiff_t first_block, std::ptrdiff_t blocks) const {
    Scratch s;
    for (const Group& group : groups_) {
      s.rows.push_back(allocate<T>(blocks * R * group.length()));
      group.pack(group.X, first_block * R, blocks * R, n, R, s.rows.back().get());
    }
    s.registers = allocate<T>(std::ptrdiff_t(program.registers) * R * C);
    s.rows_of.resize(row_terms.size());
    s.columns_of.resize(column_terms.size());
    return s;
  }

  // The values of one tile: (R, C), row by row. `local` counts blocks from the first one packed.
  T* tile(Scratch& s, std::ptrdiff_t block, std::ptrdiff_t local,
          std::ptrdiff_t column_tile) const {
    const std::ptrdiff_t row = block * R, column = column_tile * C;
    const Tile<T> here{s.registers.get(), R, C, s.rows_of.data(), s.columns_of.data()};
    sums(s, local, column_tile);
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      if (leaves[l].block) copy_block<T>(leaves[l], row, column, here.at(int(l)));
      if (leaves[l].needs_norms())
        finish_sqdist<T>(leaves[l], row, column, X_norms_[l].get() + row,
                         columns_->norms[l].get() + column, here.at(dots_of_[l]), here.at(int(l)));
    }
    for (std::size_t k = 0; k < row_terms.size(); ++k)
      s.rows_of[k] = padded_rows_[k].get() + row;
    for (std::size_t k = 0; k < column_terms.size(); ++k)
      s.columns_of[k] = columns_->terms[k].get() + column;
    run<T>(program, here);
    return here.at(program.result);
  }

  // What is summed over the features, for one tile, in the registers of the statistics. Where
  // distances are asked for, these are dot products.
  void sums(Scratch& s, std::ptrdiff_t local, std::ptrdiff_t column_tile) const {
    constexpr int P = Geometry<T>::panel;
    const Tile<T> here{s.registers.get(), R, C, nullptr, nullptr};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      const T* X = s.rows[g].get() + local * R * group.length();
      const T* Y = columns_->points[g].get() + column_tile * C * group.length();
      T* out[std::popcount(all_sums)];
      for (std::size_t k = 0; k < group.leaves.size(); ++k) out[k] = here.at(group.leaves[k]);
      for (int p = 0; p < Geometry<T>::panels; ++p, Y += P * group.length())
        if (group.sums)
          group.compute(X, Y, group.d, out, p * P, T(1));
        else
          compute_panel<T>(leaves[group.leaves[0]].kind, X, Y, group.d, out[0] + p * P);
    }
  }

  // c, for the Gaussian exp(c |x - z|^2); zero for anything else.
  double gaussian() const {
    const auto& all = program.instructions;
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
    padded_rows_.clear();
    for (const T* term : row_terms) padded_rows_.push_back(padded(term, n, row_blocks() * R));
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
  std::vector<Buffer<T>> X_norms_, padded_rows_;
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

// Copy what is above the diagonal of out[n, n] below it.
template <class T, class Interrupted>
bool mirror(T* out, std::ptrdiff_t n, int threads, Interrupted interrupted) {
  constexpr std::ptrdiff_t side = 32;
  return share(
      (n + side - 1) / side, threads,
      [&](std::ptrdiff_t block, const Stop& stop) {
        const std::ptrdiff_t top = block * side, bottom = std::min(n, top + side);
        for (std::ptrdiff_t left = 0; left < bottom && !stop; left += side)
          for (std::ptrdiff_t j = top; j < bottom; ++j)
            for (std::ptrdiff_t i = left; i < std::min(left + side, j); ++i)
              out[j * n + i] = out[i * n + j];
      },
      interrupted);
}

// out[n, m] = the Gram matrix. With `symmetric`, one half is computed and the other mirrored, so
// that the matrix is symmetric to the last bit. A block computed beforehand may be `out` itself:
// then no place is written before it was read.
template <class T, class Interrupted>
bool gram(Pairs<T>& pairs, T* out, bool symmetric, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), row_blocks_per_task / 2);
  const bool in_place = std::any_of(pairs.leaves.begin(), pairs.leaves.end(),
                                    [&](const Leaf<T>& leaf) { return leaf.block == out; });
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t first = range.first_block, last = range.last_block;
        auto scratch = pairs.scratch(first, last - first);
        const std::ptrdiff_t diagonal = symmetric ? first * R / C : 0;
        for (std::ptrdiff_t t = std::max(range.first_tile, diagonal); t < range.last_tile; ++t) {
          if (stop) return;
          for (std::ptrdiff_t b = first; b < last; ++b) {
            const std::ptrdiff_t row = b * R, column = t * C;
            if (symmetric && column + C <= row) continue;
            const T* values = pairs.tile(scratch, b, b - first, t);
            const std::ptrdiff_t height = std::min<std::ptrdiff_t>(R, pairs.n - row);
            const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - column);
            for (std::ptrdiff_t r = 0; r < height; ++r) {
              // Of a tile that crosses the diagonal, only what lies on or above it.
              const std::ptrdiff_t from =
                  symmetric ? std::max<std::ptrdiff_t>(0, row + r - column) : 0;
              if (from < width)
                std::memcpy(out + (row + r) * pairs.m + column + from, values + r * C + from,
                            (width - from) * sizeof(T));
            }
            if (!symmetric || in_place) continue;
            for (std::ptrdiff_t j = 0; j < width; ++j)
              for (std::ptrdiff_t r = 0; r < std::min(height, column + j - row + 1); ++r)
                out[(column + j) * pairs.m + row + r] = values[r * C + j];
          }
        }
      },
      interrupted);
  return done && (!symmetric || !in_place || mirror(out, pairs.n, threads, interrupted));
}

// out[places[i], first:last] = K[rows[i], first:last], for an out of m columns. The columns are
// prepared by the first call, and serve the later ones.
template <class T, class Interrupted>
bool some_rows(Pairs<T>& pairs, const std::int64_t* rows, const std::int64_t* places,
               std::ptrdiff_t count, std::ptrdiff_t first, std::ptrdiff_t last, T* out, int threads,
               Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepared() && !pairs.prepare(threads, interrupted)) return false;
  const Pairs<T> part = pairs.part(rows, count);
  const std::ptrdiff_t first_tile = first / C, tiles = (last + C - 1) / C - first_tile;
  Tasks tasks(part.row_blocks(), tiles, row_blocks_per_task / 2);
  tasks.parts = std::clamp<std::ptrdiff_t>(16 / tasks.groups(), 1, std::max<std::ptrdiff_t>(tiles / 4, 1));
  return share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        auto scratch = part.scratch(range.first_block, range.last_block - range.first_block);
        for (std::ptrdiff_t t = range.first_tile; t < range.last_tile; ++t)
          for (std::ptrdiff_t b = range.first_block; b < range.last_block; ++b) {
            if (stop) return;
            const T* values = part.tile(scratch, b, b - range.first_block, first_tile + t);
            const std::ptrdiff_t column = (first_tile + t) * C;
            const std::ptrdiff_t from = std::max(first, column), to = std::min(last, column + C);
            for (std::ptrdiff_t r = 0; r < std::min<std::ptrdiff_t>(R, count - b * R); ++r)
              std::copy(values + r * C + (from - column), values + r * C + (to - column),
                        out + places[b * R + r] * pairs.m + from);
          }
      },
      interrupted);
}

// partial[r][lane] += values[r][j] v[j], a lane at a time.
template <class T>
MERCER_INLINE void multiply_one(const T* values, const T* v, T* partial) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    Vector<T> sum = load<T>(partial + r * W);
#pragma GCC unroll 4
    for (int j = 0; j < C; j += W) sum += load<T>(values + r * C + j) * load<T>(v + j);
    store<T>(partial + r * W, sum);
  }
}

// partial[r][k] += values[r][j] V[j][k].
template <class T>
MERCER_INLINE void multiply_many(const T* values, const T* V, int wide, T* partial) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  for (int k = 0; k < wide; k += W) {
    Vector<T> sum[R];
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) sum[r] = load<T>(partial + r * wide + k);
    for (int j = 0; j < C; ++j) {
      const Vector<T> v = load<T>(V + j * wide + k);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) sum[r] += broadcast<T>(values[r * C + j]) * v;
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) store<T>(partial + r * wide + k, sum[r]);
  }
}

// What multiply_one (c = 1) or multiply_many have summed, added to sums[R, c].
template <class T>
inline void add_partial(const T* partial, int c, int wide, double* sums) {
  constexpr int R = Geometry<T>::rows, W = Simd<T>::width;
  for (int r = 0; r < R; ++r)
    if (c == 1)
      sums[r] += total<T>(load<T>(partial + r * W));
    else
      for (int k = 0; k < c; ++k) sums[r * c + k] += double(partial[r * wide + k]);
}

// A copy of V[m, c] in an array [rows, columns] that is not smaller.
template <class T>
Buffer<T> with_zeros(const T* V, std::ptrdiff_t m, int c, std::ptrdiff_t rows, int columns) {
  Buffer<T> out = allocate<T>(rows * columns);
  for (std::ptrdiff_t j = 0; j < rows; ++j)
    for (int k = 0; k < columns; ++k)
      out[j * columns + k] = j < m && k < c ? V[j * c + k] : T(0);
  return out;
}

// sums[k][j] += values[r][j] U[r][k] for the first rows; `stride` numbers from one k to the next.
template <class T>
inline void multiply_transposed(const T* values, const T* U, int c, std::ptrdiff_t rows, T* sums,
                                std::ptrdiff_t stride) {
  constexpr int C = Geometry<T>::columns, W = Simd<T>::width;
  for (int k = 0; k < c; ++k)
#pragma GCC unroll 4
    for (int j = 0; j < C; j += W) {
      Vector<T> sum = load<T>(sums + k * stride + j);
      for (std::ptrdiff_t r = 0; r < rows; ++r) sum += load<T>(values + r * C + j) * U[r * c + k];
      store<T>(sums + k * stride + j, sum);
    }
}

// out[size] = the sum of so many arrays laid end to end, in their order.
inline void add_up(const std::vector<double>& arrays, std::ptrdiff_t count, double* out,
                   std::ptrdiff_t size) {
  std::copy_n(arrays.data(), size, out);
  for (std::ptrdiff_t a = 1; a < count; ++a)
    for (std::ptrdiff_t i = 0; i < size; ++i) out[i] += arrays[a * size + i];
}

// Entries of a tile left of the diagonal, or on it and left of it, become zero.
template <class T>
inline void clear_left(T* values, std::ptrdiff_t row, std::ptrdiff_t column, bool diagonal) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < std::min<std::ptrdiff_t>(C, row + r - column + diagonal); ++j)
      values[r * C + j] = T(0);
}

// Entries of a tile past its first columns become zero: copies of the last point, which may be
// infinite, stand there.
template <class T>
inline void clear_right(T* values, std::ptrdiff_t columns) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  for (int r = 0; r < R; ++r) std::fill(values + r * C + columns, values + (r + 1) * C, T(0));
}

// What multiply_gaussian takes, made once for all tiles.
template <class T>
class GaussianTerms {
 public:
  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;

  explicit GaussianTerms(const Pairs<T>& pairs) : by_norms_(pairs.leaves[0].needs_norms()) {
    const double c = pairs.gaussian() * 1.4426950408889634;  // of 2^y, not exp(y)
    scale_ = T(by_norms_ ? -2 * c : c);
    fill(rows_, pairs.row_blocks() * R, by_norms_ ? pairs.X_norms() : nullptr, c, R, row_peaks_);
    fill(columns_, pairs.column_tiles() * C, by_norms_ ? pairs.Y_norms() : nullptr, c, C,
         column_peaks_);
  }

  // False where near pairs want the care of the program. Values go to `kept`, unless it is null.
  bool multiply(const T* sums, std::ptrdiff_t block, std::ptrdiff_t tile, const T* v, T* partial,
                T* kept = nullptr) const {
    const double norms = -double(row_peaks_[block]) - double(column_peaks_[tile]);
    const T* rows = rows_.get() + block * R;
    const T* columns = columns_.get() + tile * C;
    const bool harmless = norms <= harmless_norms;
    const T limit = T(harmless ? 0.0 : -nearness<T> * norms);
    const auto by = harmless ? kept ? multiply_gaussian<T, false, true>
                                    : multiply_gaussian<T, false, false>
                    : kept   ? multiply_gaussian<T, true, true>
                             : multiply_gaussian<T, true, false>;
    return by(sums, scale_, rows, columns, v, limit, partial, kept);
  }

 private:
  // c times the norms, and the lowest of each block.
  static void fill(Buffer<T>& terms, std::ptrdiff_t size, const T* norms, double c, int step,
                   std::vector<T>& peaks) {
    terms = allocate<T>(size);
    for (std::ptrdiff_t i = 0; i < size; ++i) terms[i] = norms ? T(c * double(norms[i])) : T(0);
    for (std::ptrdiff_t i = 0; i < size; i += step)
      peaks.push_back(*std::min_element(terms.get() + i, terms.get() + i + step));
  }

  bool by_norms_;
  T scale_;
  Buffer<T> rows_, columns_;
  std::vector<T> row_peaks_, column_peaks_;
};

// out[n, c] = K V for V[m, c]; and, from the same tiles, side[m, c2] = K^T U for U[n, c2].
// With `symmetric`, K is its own transpose and U = V: tiles on and above the diagonal give all.
// Tiles are summed in T over a block of rows or columns, and in double across blocks.
template <class T, class Interrupted>
bool product(Pairs<T>& pairs, const T* V, int c, double* out, const T* U, int c2, double* side,
             bool symmetric, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  const int wide = c == 1 ? 1 : (c + W - 1) / W * W;  // columns of V, padded with zeros
  const Buffer<T> padded = with_zeros<T>(V, pairs.m, c, tiles * C, wide);
  const std::ptrdiff_t at_once = pairs.tiles_at_once();
  // Each group of rows sums its share of K^T U apart, and the shares are added in order at the end:
  // a fixed number of them, so that they stay small beside K.
  constexpr std::ptrdiff_t most_shares = 16;
  const Tasks tasks(
      blocks, tiles,
      U ? std::max<std::ptrdiff_t>(row_blocks_per_task, (blocks + most_shares - 1) / most_shares)
        : row_blocks_per_task);
  std::vector<double> shares(U ? tasks.groups() * pairs.m * c2 : 0);
  std::vector<double> parts(tasks.parts * pairs.n * c);
  std::optional<GaussianTerms<T>> gaussian;
  if (c == 1 && !U && pairs.gaussian() < 0) gaussian.emplace(pairs);
  const int lanes = std::max(wide, W);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t first = range.first_block, last = range.last_block;
        auto scratch = pairs.scratch(first, last - first);
        std::vector<double> sums((last - first) * R * c);
        Buffer<T> partial = allocate<T>(R * lanes);
        const std::ptrdiff_t stride = at_once * C;
        Buffer<T> across = allocate<T>(stride * c2);  // of K^T U, for some rows and columns
        double* transposed = U ? shares.data() + task / tasks.parts * pairs.m * c2 : nullptr;
        const std::ptrdiff_t diagonal = symmetric ? first * R / C : 0;
        for (std::ptrdiff_t t0 = std::max(range.first_tile, diagonal); t0 < range.last_tile;
             t0 += at_once) {
          const std::ptrdiff_t t1 = std::min(t0 + at_once, range.last_tile);
          for (std::ptrdiff_t b = first; b < last; ++b) {
            if (stop) return;
            double* sum = sums.data() + (b - first) * R * c;
            std::fill_n(partial.get(), R * lanes, T(0));
            if ((b - first) % row_blocks_per_task == 0) std::fill_n(across.get(), stride * c2, T(0));
            for (std::ptrdiff_t t = t0; t < t1; ++t) {
              if (symmetric && (t + 1) * C <= b * R) continue;
              if (gaussian) {
                pairs.sums(scratch, b - first, t);
                if (gaussian->multiply(scratch.registers.get(), b, t, padded.get() + t * C,
                                       partial.get()))
                  continue;
              }
              const bool crosses = symmetric && t * C < (b + 1) * R;
              T* values = pairs.tile(scratch, b, b - first, t);
              if ((t + 1) * C > pairs.m) clear_right<T>(values, pairs.m - t * C);
              if (crosses) clear_left<T>(values, b * R, t * C, false);
              if (c == 1)
                multiply_one<T>(values, padded.get() + t * C, partial.get());
              else if (c > 1)
                multiply_many<T>(values, padded.get() + t * C * wide, wide, partial.get());
              if (crosses) clear_left<T>(values, b * R, t * C, true);
              if (U)
                multiply_transposed<T>(values, U + b * R * c2, c2,
                                       std::min<std::ptrdiff_t>(R, pairs.n - b * R),
                                       across.get() + (t - t0) * C, stride);
            }
            add_partial<T>(partial.get(), c, wide, sum);
            if (U && ((b - first + 1) % row_blocks_per_task == 0 || b + 1 == last))
              for (std::ptrdiff_t j = t0 * C; j < std::min(t1 * C, pairs.m); ++j)
                for (int k = 0; k < c2; ++k)
                  transposed[j * c2 + k] += double(across[k * stride + j - t0 * C]);
          }
        }
        const std::ptrdiff_t rows = std::min(last * R, pairs.n) - first * R;
        std::copy_n(sums.data(), rows * c, parts.data() + (range.part * pairs.n + first * R) * c);
      },
      interrupted);
  if (!done) return false;
  add_up(parts, tasks.parts, out, pairs.n * c);
  if (U) add_up(shares, tasks.groups(), side, pairs.m * c2);
  return true;
}

// log(sum of exp) so far, as largest + log(scaled).
struct LogSum {
  double largest = -std::numeric_limits<double>::infinity(), scaled = 0.0;

  void add(const LogSum& other) {
    const double top = std::max(largest, other.largest);
    // An infinite top counts itself; NaN in a sum stays there.
    const auto shrink = [top](double from) {
      return from == top ? 1.0 : std::isinf(top) ? 0.0 : std::exp(from - top);
    };
    scaled = scaled * shrink(largest) + other.scaled * shrink(other.largest);
    largest = top;
  }
};

// For each row, log of the sum over columns of exp(k + log_weight[j]), without overflow.
template <class T, class Interrupted>
bool log_sum_exp(Pairs<T>& pairs, const T* log_weight, double* out, int threads,
                 Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), 1);
  Buffer<T> weight = allocate<T>(tasks.tiles * C);
  std::fill_n(weight.get(), tasks.tiles * C, T(0));
  if (log_weight) std::copy_n(log_weight, pairs.m, weight.get());
  std::vector<LogSum> sums(tasks.parts * tasks.blocks * R);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t b = range.first_block;
        auto scratch = pairs.scratch(b, 1);
        LogSum* sum = sums.data() + (range.part * tasks.blocks + b) * R;
        for (std::ptrdiff_t t = range.first_tile; t < range.last_tile; ++t) {
          if (stop) return;
          T* values = pairs.tile(scratch, b, 0, t);
          const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - t * C);
          for (int r = 0; r < R; ++r) {
            std::fill(values + r * C + width, values + (r + 1) * C, -infinity);
            Vector<T> here[C / W], top = broadcast<T>(T(sum[r].largest));
            Mask<T> odd{};
            for (int j = 0; j < C / W; ++j) {
              here[j] = load<T>(values + r * C + j * W) + load<T>(weight.get() + t * C + j * W);
              top = here[j] > top ? here[j] : top;
              odd |= here[j] != here[j];
            }
            T peak = T(sum[r].largest);
            if (any<T>(top > peak))
              for (int i = 0; i < W; ++i) peak = std::max(peak, top[i]);
            double part = any<T>(odd) ? std::numeric_limits<double>::quiet_NaN() : 0.0;
            if (peak == infinity) part += 1.0;
            if (std::abs(peak) < infinity) {
              Vector<T> terms{};
              for (int j = 0; j < C / W; ++j) terms += exp_nonpositive<T>(here[j] - peak);
              part += total<T>(terms);
            }
            sum[r].add({double(peak), part});
          }
        }
      },
      interrupted);
  if (!done) return false;
  for (std::ptrdiff_t i = 0; i < pairs.n; ++i) {
    LogSum whole;
    for (std::ptrdiff_t part = 0; part < tasks.parts; ++part)
      whole.add(sums[part * tasks.blocks * R + i]);
    out[i] = whole.largest + std::log(whole.scaled);
  }
  return true;
}

// For each row, the least value and the first column that has it. NaN is passed over.
template <class T, class Interrupted>
bool arg_min(Pairs<T>& pairs, T* least, std::int64_t* where, int threads,
             Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), 1);
  struct Least {
    T value = std::numeric_limits<T>::infinity();
    std::int64_t where = 0;
  };
  std::vector<Least> found(tasks.parts * tasks.blocks * R);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t b = range.first_block;
        auto scratch = pairs.scratch(b, 1);
        Least* best = found.data() + (range.part * tasks.blocks + b) * R;
        for (std::ptrdiff_t t = range.first_tile; t < range.last_tile; ++t) {
          if (stop) return;
          const T* values = pairs.tile(scratch, b, 0, t);
          const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - t * C);
          for (int r = 0; r < R; ++r) {
            Mask<T> less{};
            for (int j = 0; j < C; j += W) less |= load<T>(values + r * C + j) < best[r].value;
            if (!any<T>(less)) continue;
            for (std::ptrdiff_t j = 0; j < width; ++j)
              if (values[r * C + j] < best[r].value) best[r] = {values[r * C + j], t * C + j};
          }
        }
      },
      interrupted);
  if (!done) return false;
  for (std::ptrdiff_t i = 0; i < pairs.n; ++i) {
    Least whole = found[i];
    for (std::ptrdiff_t part = 1; part < tasks.parts; ++part) {
      const Least& next = found[part * tasks.blocks * R + i];
      if (next.value < whole.value) whole = next;
    }
    least[i] = whole.value;
    where[i] = whole.where;
  }
  return true;
}

}  // namespace mercer
