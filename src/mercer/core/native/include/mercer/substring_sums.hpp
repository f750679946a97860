// Sums of substring kernels with many sequences at once, by the automaton of all their suffixes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mercer/hashing.hpp"
#include "mercer/suffixes.hpp"

namespace mercer {

// The suffix automaton of some sequences (Blumer et al. 1985): a state for each set of substrings
// that end at the same places, each with sums over the sequences, so that weighted sums of kernels
// with all of them take time linear in a new sequence.
class Automaton {
 public:
  explicit Automaton(std::uint32_t letters) : from_root_(letters, -1) { add_state(0, -1); }

  // The state after one more symbol of the sequence that is being read.
  Place extend(Place last, std::uint32_t symbol) {
    const Place known = next(last, symbol);
    if (known >= 0)
      return states_[known].length == states_[last].length + 1 ? known : split(last, symbol, known);
    const Place made = add_state(states_[last].length + 1, 0);
    Place p = last;
    for (; p >= 0 && next(p, symbol) < 0; p = states_[p].link) add_edge(p, symbol, made);
    if (p >= 0) {
      const Place q = next(p, symbol);
      const Place link = states_[q].length == states_[p].length + 1 ? q : split(p, symbol, q);
      states_[made].link = link;
    }
    return made;
  }

  Place next(Place state, std::uint32_t symbol) const {
    if (state == 0) return symbol < from_root_.size() ? from_root_[symbol] : -1;
    const Place e = edge(state, symbol);
    return e < 0 ? -1 : edges_[e].to;
  }

  Place size() const { return Place(states_.size()); }
  Place length(Place state) const { return states_[state].length; }
  Place link(Place state) const { return states_[state].link; }

 private:
  // The edges of a state are a list; where it is long, they are found by a table of them.
  static constexpr Place few = 4;
  struct State {
    Place length, link, edges, degree;
  };
  struct Edge {
    Place state;
    std::uint32_t symbol;
    Place to, next;
  };

  Place add_state(Place length, Place link) {
    states_.push_back({length, link, -1, 0});
    return Place(states_.size()) - 1;
  }

  Place edge(Place state, std::uint32_t symbol) const {
    if (states_[state].degree > few) return table_[slot(table_, state, symbol)];
    Place e = states_[state].edges;
    while (e >= 0 && edges_[e].symbol != symbol) e = edges_[e].next;
    return e;
  }

  // Where the edge is in a table of places that are -1 where they are free, or is to be.
  std::size_t slot(const std::vector<Place>& table, Place state, std::uint32_t symbol) const {
    const std::uint64_t key = std::uint64_t(state) << 32 | symbol;
    std::size_t i = mixed(key ^ hash_seed) & (table.size() - 1);
    while (table[i] >= 0 && (edges_[table[i]].state != state || edges_[table[i]].symbol != symbol))
      i = (i + 1) & (table.size() - 1);
    return i;
  }

  void enter(Place e) {
    if (2 * (entered_ + 1) > table_.size()) {
      std::vector<Place> wider(2 * table_.size(), -1);
      for (const Place old : table_)
        if (old >= 0) wider[slot(wider, edges_[old].state, edges_[old].symbol)] = old;
      table_.swap(wider);
    }
    table_[slot(table_, edges_[e].state, edges_[e].symbol)] = e;
    ++entered_;
  }

  void add_edge(Place state, std::uint32_t symbol, Place to) {
    if (state == 0) {
      from_root_[symbol] = to;
      return;
    }
    State& from = states_[state];
    const Place made = Place(edges_.size());
    edges_.push_back({state, symbol, to, from.edges});
    from.edges = made;
    ++from.degree;
    if (from.degree == few + 1)
      for (Place e = made; e >= 0; e = edges_[e].next) enter(e);
    else if (from.degree > few)
      enter(made);
  }

  // Set apart the substrings of q that are as long as those of p and one symbol.
  Place split(Place p, std::uint32_t symbol, Place q) {
    const Place made = add_state(states_[p].length + 1, states_[q].link);
    for (Place e = states_[q].edges; e >= 0; e = edges_[e].next)
      add_edge(made, edges_[e].symbol, edges_[e].to);
    states_[q].link = made;
    for (; p >= 0 && next(p, symbol) == q; p = states_[p].link) redirect(p, symbol, made);
    return made;
  }

  void redirect(Place state, std::uint32_t symbol, Place to) {
    if (state == 0) {
      from_root_[symbol] = to;
      return;
    }
    edges_[edge(state, symbol)].to = to;
  }

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<Place> from_root_, table_ = std::vector<Place>(64, -1);
  std::size_t entered_ = 0;
};

// f(t) = sum_i alpha[i] K(s_i, t) for the substring kernel, several alpha at once.
class SubstringSum {
 public:
  // alpha: (sequences, columns); weight[l] as above, for l up to `longest`, the same beyond.
  SubstringSum(const std::uint32_t* symbols, const std::int64_t* starts, Place sequences,
               std::uint32_t letters, const double* alpha, int columns, const double* weight,
               Place longest, bool presence, const Stop& stop)
      : automaton_(letters), letters_(letters), columns_(columns), presence_(presence),
        weight_(weight, weight + longest + 1) {
    for (Place i = 0; i < sequences; ++i) {
      Place last = 0;
      for (std::int64_t j = starts[i]; j < starts[i + 1]; ++j) {
        heed(stop, j);
        last = automaton_.extend(last, symbols[j]);
      }
    }
    const Place size = automaton_.size();
    own_.assign(std::size_t(size) * columns, 0.0);
    end_.assign(size, 0);
    std::vector<Place> seen(size, -1), by_length(size);
    for (Place i = 0; i < sequences; ++i) {
      Place state = 0;
      for (std::int64_t j = starts[i]; j < starts[i + 1]; ++j) {
        heed(stop, j);
        state = automaton_.next(state, symbols[j]);
        end_[state] = Place(j + 1);
        if (!presence) add(state, alpha + std::ptrdiff_t(i) * columns);
        for (Place u = state; presence && u > 0 && seen[u] != i; u = automaton_.link(u)) {
          seen[u] = i;
          add(u, alpha + std::ptrdiff_t(i) * columns);
        }
      }
    }
    for (Place v = 0; v < size; ++v) by_length[v] = v;
    std::sort(by_length.begin(), by_length.end(), [&](Place a, Place b) {
      return automaton_.length(a) < automaton_.length(b);
    });
    for (Place k = size - 1; k > 0; --k) {
      const Place v = by_length[k], link = automaton_.link(v);
      if (link == 0) continue;
      if (!presence) add(link, own_.data() + std::ptrdiff_t(v) * columns);
      end_[link] = end_[v];
    }
    all_.assign(own_.size(), 0.0);
    for (Place k = 1; k < size; ++k) {
      const Place v = by_length[k];
      sum_to(v, automaton_.length(v), all_.data() + std::ptrdiff_t(v) * columns);
    }
  }

  // out[columns] = f of one sequence.
  void operator()(const std::uint32_t* symbols, std::int64_t length, double* out,
                  const Stop& stop) const {
    std::fill_n(out, columns_, 0.0);
    std::vector<double> part(columns_);
    follow(symbols, length, stop, [&](std::int64_t, Place state, Place matched, Place before) {
      sum_to(state, matched, part.data());
      for (int c = 0; c < columns_; ++c) out[c] += part[c];
      if (before == 0) return;
      Place u = state;
      while (automaton_.length(automaton_.link(u)) >= before) u = automaton_.link(u);
      sum_to(u, before, part.data());
      for (int c = 0; c < columns_; ++c) out[c] -= part[c];
    });
  }

  int columns() const { return columns_; }

  // The substrings with the largest weights in a column of f, each as long as the sequences that
  // have it allow: where it ends among all symbols, its length and its weight.
  struct Heavy {
    Place end, length;
    double weight;
  };
  std::vector<Heavy> heaviest(int column, std::size_t count) const {
    std::vector<Heavy> found;
    for (Place v = 1; v < automaton_.size(); ++v) {
      const Place length = std::min(automaton_.length(v), Place(weight_.size()) - 1);
      if (length <= automaton_.length(automaton_.link(v))) continue;
      const double value = (weight(length) - weight(length - 1)) *
                           own_[std::ptrdiff_t(v) * columns_ + column];
      if (value != 0) found.push_back({end_[v], length, value});
    }
    count = std::min(count, found.size());
    std::partial_sort(found.begin(), found.begin() + std::ptrdiff_t(count), found.end(),
                      [](const Heavy& a, const Heavy& b) {
                        if (std::abs(a.weight) != std::abs(b.weight))
                          return std::abs(a.weight) > std::abs(b.weight);
                        return a.length != b.length ? a.length > b.length : a.end < b.end;
                      });
    found.resize(count);
    return found;
  }

  // out[length, columns] = f of one sequence, what each substring adds shared equally by the places
  // where it stands.
  void along(const std::uint32_t* symbols, std::int64_t length, double* out,
             const Stop& stop) const {
    std::fill_n(out, length * columns_, 0.0);
    // First what begins to count where a substring ends and ceases before it starts, then sums.
    follow(symbols, length, stop, [&](std::int64_t j, Place state, Place matched, Place before) {
      for (Place u = state, l = matched; u > 0 && l > before; u = automaton_.link(u))
        for (; l > std::max(before, automaton_.length(automaton_.link(u))); --l) {
          const double share = (weight(l) - weight(l - 1)) / l;
          for (int c = 0; c < columns_; ++c) {
            const double value = share * own_[std::ptrdiff_t(u) * columns_ + c];
            out[j * columns_ + c] += value;
            if (j >= l) out[(j - l) * columns_ + c] -= value;
          }
        }
    });
    for (std::int64_t j = length - 2; j >= 0; --j)
      for (int c = 0; c < columns_; ++c) out[j * columns_ + c] += out[(j + 1) * columns_ + c];
  }

 private:
  // Walk along a sequence: meet(place, state, symbols matched there, symbols that matched before).
  template <class Meet>
  void follow(const std::uint32_t* symbols, std::int64_t length, const Stop& stop,
              Meet meet) const {
    Automaton own(presence_ ? letters_ + 1 : 0);  // of the sequence itself: what it has had before
    Place state = 0, matched = 0, last = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      heed(stop, j);
      const std::uint32_t symbol = std::min(symbols[j], letters_);  // all unknown ones match nothing
      while (state > 0 && automaton_.next(state, symbol) < 0) {
        state = automaton_.link(state);
        matched = automaton_.length(state);
      }
      const Place to = automaton_.next(state, symbol);
      state = std::max<Place>(to, 0);
      matched = to < 0 ? 0 : matched + 1;
      Place before = 0;  // the longest that ends here and has been before
      if (presence_) {
        last = own.extend(last, symbol);
        before = own.length(own.link(last));
      }
      if (matched > before) meet(j, state, matched, before);
    }
  }

  void add(Place state, const double* alpha) {
    for (int c = 0; c < columns_; ++c) own_[std::ptrdiff_t(state) * columns_ + c] += alpha[c];
  }

  double weight(Place length) const {
    return weight_[std::min<std::size_t>(length, weight_.size() - 1)];
  }

  // The suffixes of up to so many symbols of the substrings of a state, all together.
  void sum_to(Place state, Place length, double* out) const {
    const Place link = automaton_.link(state);
    const double mine = weight(length) - weight(automaton_.length(link));
    for (int c = 0; c < columns_; ++c)
      out[c] = all_[std::ptrdiff_t(link) * columns_ + c] +
               mine * own_[std::ptrdiff_t(state) * columns_ + c];
  }

  Automaton automaton_;
  std::uint32_t letters_;
  int columns_;
  bool presence_;
  std::vector<double> weight_, own_, all_;
  std::vector<Place> end_;  // past a place where the substrings of a state end
};

}  // namespace mercer
