// Sorted suffixes: all substrings of a collection of sequences, in linear space and time.
#pragma once

#include <algorithm>
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

}  // namespace mercer
