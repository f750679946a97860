// Sorted suffixes: all substrings of a collection of sequences, in linear space and time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mercer/threads.hpp"

namespace mercer {

using Place = std::int32_t;

// Thrown out of long work when it is to stop.
struct Stopped {};

inline void heed(const Stop& stop, std::int64_t turn) {
  if ((turn & 0xfffff) == 0 && stop) throw Stopped();
}

// Suffixes sorted by induction (Nong, Zhang and Chan, "Two efficient algorithms for linear time
// suffix array construction", 2011). A suffix is "rising" if it sorts before the next one; a rising
// suffix after one that is not is a turn. The order of the turns, found by recursion on a text half
// as long, gives the order of all in two passes. The empty suffix sorts before every other.
class SuffixSorter {
 public:
  // order[n] = the suffixes of text[n], whose symbols lie in [0, letters).
  SuffixSorter(const std::vector<Place>& text, Place letters, std::vector<Place>& order,
               const Stop& stop)
      : text_(text), n_(Place(text.size())), rising_(text.size()), order_(order), stop_(stop) {
    order_.assign(n_, -1);
    if (n_ == 0) return;
    ends_.assign(letters, 0);
    for (Place i = 0; i < n_; ++i) ++ends_[text_[i]];
    for (Place c = 0, sum = 0; c < letters; ++c) ends_[c] = sum += ends_[c];
    for (Place i = n_ - 2; i >= 0; --i)
      rising_[i] = text_[i] < text_[i + 1] || (text_[i] == text_[i + 1] && rising_[i + 1]);
    std::vector<Place> turns;
    for (Place i = 1; i < n_; ++i)
      if (is_turn(i)) turns.push_back(i);
    induce(turns);
    if (turns.size() > 1) {
      sort(turns);
      induce(turns);
    }
  }

 private:
  bool is_turn(Place i) const { return i > 0 && rising_[i] && !rising_[i - 1]; }

  // The order of all suffixes, right if the turns are given in theirs; from turns in the order of
  // the text, the order of the turns up to their next ones.
  void induce(const std::vector<Place>& turns) {
    std::fill(order_.begin(), order_.end(), -1);
    std::vector<Place> next = ends_;
    for (std::size_t k = turns.size(); k-- > 0;) order_[--next[text_[turns[k]]]] = turns[k];
    std::fill(next.begin(), next.begin() + std::min<std::size_t>(1, next.size()), 0);
    std::copy(ends_.begin(), ends_.end() - 1, next.begin() + 1);  // where the buckets begin
    order_[next[text_[n_ - 1]]++] = n_ - 1;
    for (Place i = 0; i < n_; ++i) {
      heed(stop_, i);
      const Place j = order_[i] - 1;
      if (j >= 0 && !rising_[j]) order_[next[text_[j]]++] = j;
    }
    std::copy(ends_.begin(), ends_.end(), next.begin());
    for (Place i = n_ - 1; i >= 0; --i) {
      heed(stop_, i);
      const Place j = order_[i] - 1;
      if (j >= 0 && rising_[j]) order_[--next[text_[j]]] = j;
    }
  }

  // Bring the turns into the order of their suffixes, after a first `induce`.
  void sort(std::vector<Place>& turns) {
    const Place count = Place(turns.size());
    // Number the stretches from turn to turn in their order, equal ones alike.
    std::vector<Place> number((n_ + 1) / 2, -1);  // two turns are never neighbours
    Place last = -1, names = -1;
    for (Place i = 0; i < n_; ++i) {
      heed(stop_, i);
      const Place turn = order_[i];
      if (!is_turn(turn)) continue;
      if (last < 0 || !same_stretch(last, turn)) ++names;
      number[turn / 2] = names;
      last = turn;
    }
    std::vector<Place> shorter(count), sorted;
    for (Place k = 0; k < count; ++k) shorter[k] = number[turns[k] / 2];
    std::vector<Place>().swap(number);
    if (names + 1 < count) {
      SuffixSorter(shorter, names + 1, sorted, stop_);
      for (Place& k : sorted) k = turns[k];
    } else {
      sorted.resize(count);
      for (Place k = 0; k < count; ++k) sorted[shorter[k]] = turns[k];
    }
    turns.swap(sorted);
  }

  // Whether the text agrees from two turns to the next, those included.
  bool same_stretch(Place a, Place b) const {
    for (Place k = 0;; ++k) {
      if (a + k == n_ || b + k == n_ || text_[a + k] != text_[b + k] ||
          rising_[a + k] != rising_[b + k])
        return false;
      if (k > 0 && (is_turn(a + k) || is_turn(b + k))) return is_turn(a + k) && is_turn(b + k);
    }
  }

  const std::vector<Place>& text_;
  Place n_;
  std::vector<bool> rising_;
  std::vector<Place>& order_;
  std::vector<Place> ends_;
  const Stop& stop_;
};

// The suffixes of some sequences in order, each with the sequence it belongs to, its length, and
// how much of it it shares with the one before, all up to a depth.
class Suffixes {
 public:
  // The symbols of sequence i begin at starts[i] and are below `letters`.
  Suffixes(const std::uint32_t* symbols, const std::int64_t* starts, Place sequences, Place letters,
           Place depth, const Stop& stop)
      : sequences_(sequences) {
    const Place n = Place(starts[sequences]);
    // Each sequence is ended by a symbol of its own, above all others.
    std::vector<Place> text(n + sequences), ends(sequences), order;
    for (Place i = 0, k = 0; i < sequences; ++i) {
      for (std::int64_t j = starts[i]; j < starts[i + 1]; ++j) text[k++] = Place(symbols[j]);
      ends[i] = k;
      text[k++] = letters + i;
    }
    SuffixSorter(text, letters + sequences, order, stop);
    std::vector<Place> before(text.size());  // the suffix before each, in the order of the text
    before[order[0]] = -1;
    for (std::size_t i = 1; i < order.size(); ++i) before[order[i]] = order[i - 1];
    for (Place i = 0, shared = 0; i < Place(text.size()); ++i) {
      heed(stop, i);
      const Place other = before[i];
      if (other < 0) shared = 0;
      else
        while (text[i + shared] == text[other + shared]) ++shared;  // the ends all differ
      before[i] = shared;
      if (shared > 0) --shared;
    }
    std::vector<Place>().swap(text);
    owner_.resize(n);
    length_.resize(n);
    lcp_.resize(n);
    std::vector<Place> owner_of(order.size());
    for (Place i = 0, k = 0; i < sequences; ++i)
      for (; k <= ends[i]; ++k) owner_of[k] = i;
    for (Place i = 0; i < n; ++i) {  // the ends sort last
      owner_[i] = owner_of[order[i]];
      length_[i] = std::min(ends[owner_[i]] - order[i], depth);
      lcp_[i] = std::min(before[order[i]], depth);
    }
    find_lcp_within();
  }

  Place sequences() const { return sequences_; }

  // out[sequences]: the distinct substrings that sequence i shares with each, weighted by length;
  // weight[l] is what lengths up to l weigh together. A substring is counted at the first suffix of
  // its sequence that it begins.
  void presence(Place i, const double* weight, double* out, const Stop& stop) const {
    const Place n = Place(owner_.size());
    std::vector<Place> longest(n);
    for (Place j = 0, run = 0; j < n; ++j)
      longest[j] = run = owner_[j] == i ? length_[j] : std::min(run, lcp_[j]);
    std::fill_n(out, sequences_, 0.0);
    for (Place j = n - 1, run = 0; j >= 0; --j) {
      heed(stop, j);
      run = owner_[j] == i ? length_[j] : std::min(run, j + 1 < n ? lcp_[j + 1] : 0);
      const Place shared = std::max(longest[j], run);
      if (shared > within_[j]) out[owner_[j]] += weight[shared] - weight[within_[j]];
    }
  }

  // out[sequences]: the substrings that sequence i shares with each, every pair of occurrences
  // counted: for each suffix the sum of weight[lcp] over all suffixes of sequence i.
  void occurrences(Place i, const double* weight, double* out, const Stop& stop) const {
    const Place n = Place(owner_.size());
    std::fill_n(out, sequences_, 0.0);
    std::vector<Level> levels;
    for (Place j = 0; j < n; ++j) {
      heed(stop, j);
      step(levels, lcp_[j], weight);
      out[owner_[j]] += levels.empty() ? 0.0 : levels.back().sum;
      if (owner_[j] != i) continue;
      out[i] += weight[length_[j]];
      push(levels, length_[j], 1, weight);
    }
    levels.clear();
    for (Place j = n - 1; j >= 0; --j) {
      heed(stop, j);
      step(levels, j + 1 < n ? lcp_[j + 1] : 0, weight);
      out[owner_[j]] += levels.empty() ? 0.0 : levels.back().sum;
      if (owner_[j] == i) push(levels, length_[j], 1, weight);
    }
  }

 private:
  // Suffixes of one sequence that share so many symbols with the present one; of the levels below
  // and this one, the weights together.
  struct Level {
    Place shared;
    double count, sum;
  };

  static void push(std::vector<Level>& levels, Place shared, double count, const double* weight) {
    const double below = levels.empty() ? 0.0 : levels.back().sum;
    levels.push_back({shared, count, below + count * weight[shared]});
  }

  // On to the next suffix, which shares so many symbols with this one.
  static void step(std::vector<Level>& levels, Place shared, const double* weight) {
    double count = 0;
    for (; !levels.empty() && levels.back().shared >= shared; levels.pop_back())
      count += levels.back().count;
    if (count > 0) push(levels, shared, count, weight);
  }

  // How much a suffix shares with the one of the same sequence before it: the least lcp between.
  void find_lcp_within() {
    const Place n = Place(owner_.size());
    within_.assign(n, 0);
    std::vector<Place> previous(sequences_, -1), low;  // places of ever larger lcp
    for (Place j = 0; j < n; ++j) {
      while (!low.empty() && lcp_[low.back()] >= lcp_[j]) low.pop_back();
      low.push_back(j);
      Place& last = previous[owner_[j]];
      if (last >= 0) within_[j] = lcp_[*std::upper_bound(low.begin(), low.end(), last)];
      last = j;
    }
  }

  Place sequences_;
  std::vector<Place> owner_, length_, lcp_, within_;
};

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
    std::uint64_t hash = (std::uint64_t(state) << 32 | symbol) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    std::size_t i = (hash >> 32) & (table.size() - 1);
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
