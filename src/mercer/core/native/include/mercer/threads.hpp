// Tasks shared out over threads that live for one call: nothing survives a fork, nothing is global.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace mercer {

// Long tasks look at it now and then, and leave off when it is true.
using Stop = std::atomic<bool>;

// A function that the caller keeps alive. Loops over tasks are compiled once for all of them, not
// once per task, which is much of what building the core would take.
template <class Signature>
class Borrowed;

template <class Result, class... Arguments>
class Borrowed<Result(Arguments...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Borrowed>)
  Borrowed(F&& function)
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* function, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(function))(arguments...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

 private:
  void* function_;
  Result (*call_)(void*, Arguments...);
};

// Asked now and then whether the work is to end.
using Interrupted = Borrowed<bool()>;

// Run task(i, stop) for i in [0, count), each on one thread. interrupted() is asked every twentieth
// of a second on the calling thread, and ends the work when it answers true. Which thread runs a
// task has no influence on its result. With threads = 0 the calling thread does the work itself,
// which is for work so short that starting a thread would count. Returns whether all was done.
bool share(std::ptrdiff_t count, int threads, Borrowed<void(std::ptrdiff_t, const Stop&)> task,
           Interrupted interrupted);

}  // namespace mercer
