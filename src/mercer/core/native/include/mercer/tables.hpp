// Features with names that are short rows of whole numbers: numbered, and counted object by object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "mercer/hashing.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Rows of `width` numbers, each numbered when it first comes: an open hash table that compares whole
// rows, so that two different ones are never taken for the same.
class KeyTable {
 public:
  using Number = std::uint32_t;

  explicit KeyTable(int width) : width_(width), random_(width), slots_(64) {
    std::uint64_t state = hash_seed;
    for (std::uint64_t& number : random_) number = mixed(state += 0x9e3779b97f4a7c15u);
  }

  int width() const { return width_; }
  std::int64_t size() const { return size_; }
  const Number* keys() const { return keys_.data(); }

  // The number of a row, or -1 if it has none and may not get one.
  std::int64_t operator()(const Number* key, bool grow) {
    const std::uint64_t hash = hash_of(key);
    for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot slot = slots_[i];
      if (!slot.row) {
        if (!grow) return -1;
        return insert(key, hash, i);
      }
      if (slot.tag == Number(hash >> 32) && std::equal(key, key + width_, row(slot.row - 1)))
        return std::int64_t(slot.row) - 1;
    }
  }

  // How far from its place the farthest key lies.
  std::int64_t longest_probe() const {
    std::uint64_t longest = 0;
    for (std::uint64_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].row)
        longest = std::max(longest, (i - hash_of(row(slots_[i].row - 1))) & (slots_.size() - 1));
    return std::int64_t(longest);
  }

 private:
  struct Slot {
    Number tag = 0;  // the upper half of the hash
    Number row = 0;  // counted from one; zero in an empty slot
  };

  const Number* row(Number k) const { return keys_.data() + std::size_t(k) * width_; }

  // Σ (x_k + r_k) (x_{k+1} + r_{k+1}) over every other k, with random r: of two different rows, the
  // sums are equal with a probability below 2^-32, whoever chose the rows.
  std::uint64_t hash_of(const Number* key) const {
    std::uint64_t h = 0;
    int k = 0;
    for (; k + 1 < width_; k += 2) h += (random_[k] + key[k]) * (random_[k + 1] + key[k + 1]);
    if (k < width_) h += random_[k] * key[k];
    return mixed(h);
  }

  std::int64_t insert(const Number* key, std::uint64_t hash, std::size_t slot) {
    if (size_ + 1 >= std::numeric_limits<Number>::max())
      throw std::length_error("more than 4 billion different features");
    keys_.insert(keys_.end(), key, key + width_);
    slots_[slot] = {Number(hash >> 32), Number(++size_)};
    if (std::size_t(size_) * 2 > slots_.size()) widen();
    return size_ - 1;
  }

  void widen() {
    std::vector<Slot> wider(slots_.size() * 2);
    for (std::int64_t k = 0; k < size_; ++k) {
      const std::uint64_t hash = hash_of(row(Number(k)));
      std::size_t i = hash & (wider.size() - 1);
      while (wider[i].row) i = (i + 1) & (wider.size() - 1);
      wider[i] = {Number(hash >> 32), Number(k + 1)};
    }
    slots_.swap(wider);
  }

  int width_;
  std::int64_t size_ = 0;
  std::vector<std::uint64_t> random_;
  std::vector<Number> keys_;
  std::vector<Slot> slots_;
};

// Sparse rows of counts.
struct Counts {
  std::vector<std::int64_t> starts{0}, columns;
  std::vector<double> values;

  // One more row: how often each column is in the list; -1 is nothing. Those from `known` on are
  // new, and so numbered without gaps: they are counted in place, and only the others sorted.
  void add(const std::vector<std::int64_t>& list, std::int64_t known) {
    old_.clear();
    fresh_.clear();
    for (const std::int64_t column : list) {
      if (column < known) {
        if (column >= 0) old_.push_back(column);
        continue;
      }
      if (std::size_t(column - known) >= fresh_.size()) fresh_.resize(column - known + 1);
      ++fresh_[column - known];
    }
    std::sort(old_.begin(), old_.end());
    const std::size_t first = columns.size();
    for (const std::int64_t column : old_) {
      if (columns.size() > first && columns.back() == column) {
        ++values.back();
      } else {
        columns.push_back(column);
        values.push_back(1);
      }
    }
    for (std::size_t k = 0; k < fresh_.size(); ++k) columns.push_back(known + std::int64_t(k));
    values.insert(values.end(), fresh_.begin(), fresh_.end());
    starts.push_back(std::int64_t(columns.size()));
  }

 private:
  std::vector<std::int64_t> old_;
  std::vector<double> fresh_;
};

// Counts of the keys (N, width) of objects; those of object i begin at starts[i].
inline Counts count_keys(KeyTable& table, const KeyTable::Number* keys, const std::int64_t* starts,
                         std::ptrdiff_t objects, bool grow, const Stop& stop) {
  Counts counts;
  std::vector<std::int64_t> list;
  for (std::ptrdiff_t i = 0; i < objects && !stop; ++i) {
    list.clear();
    const std::int64_t known = table.size();
    for (std::int64_t k = starts[i]; k < starts[i + 1]; ++k)
      list.push_back(table(keys + k * table.width(), grow));
    counts.add(list, known);
  }
  return counts;
}

// Which words of a sequence are counted.
struct Words {
  const std::int64_t* offsets;   // (patterns, width), increasing from 0: where its symbols stand
  std::ptrdiff_t patterns;
  int mismatches = 0;            // places in which a word may be changed
  KeyTable::Number letters = 0;  // symbols are below this, where words are changed
};

// Calls emit(word) for the word and for all that differ from it in at most so many places from
// `place` on.
template <class Emit>
void neighbours(std::vector<KeyTable::Number>& word, std::size_t place, int changes,
                KeyTable::Number letters, const Emit& emit) {
  emit(word.data());
  if (changes == 0) return;
  for (; place < word.size(); ++place) {
    const KeyTable::Number own = word[place];
    for (KeyTable::Number other = 0; other < letters; ++other) {
      if (other == own) continue;
      word[place] = other;
      neighbours(word, place + 1, changes - 1, letters, emit);
    }
    word[place] = own;
  }
}

// Counts of the words of sequences; the symbols of sequence i begin at starts[i].
inline Counts count_words(KeyTable& table, const KeyTable::Number* symbols,
                          const std::int64_t* starts, std::ptrdiff_t sequences, const Words& words,
                          bool grow, const Stop& stop) {
  const int width = table.width();
  Counts counts;
  std::vector<std::int64_t> list;
  std::vector<KeyTable::Number> word(width);
  for (std::ptrdiff_t i = 0; i < sequences && !stop; ++i) {
    list.clear();
    const std::int64_t known = table.size();
    for (std::ptrdiff_t p = 0; p < words.patterns; ++p) {
      const std::int64_t* offset = words.offsets + p * width;
      for (std::int64_t at = starts[i]; at + offset[width - 1] < starts[i + 1] && !stop; ++at) {
        for (int k = 0; k < width; ++k) word[k] = symbols[at + offset[k]];
        if (words.mismatches == 0)
          list.push_back(table(word.data(), grow));
        else
          neighbours(word, 0, words.mismatches, words.letters,
                     [&](const KeyTable::Number* near) { list.push_back(table(near, grow)); });
      }
    }
    counts.add(list, known);
  }
  return counts;
}

}  // namespace mercer
