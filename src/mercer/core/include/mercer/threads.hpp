// Tasks shared out over threads that live for one call: nothing survives a fork, nothing is global.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace mercer {

// Long tasks look at it now and then, and leave off when it is true.
using Stop = std::atomic<bool>;

// Run task(i, stop) for i in [0, count), each on one thread. interrupted() is asked every twentieth
// of a second on the calling thread, and ends the work when it answers true. Which thread runs a
// task has no influence on its result. With threads = 0 the calling thread does the work itself,
// which is for work so short that starting a thread would count. Returns whether all was done.
template <class Task, class Interrupted>
bool share(std::ptrdiff_t count, int threads, Task task, Interrupted interrupted) {
  Stop stop{false};
  if (threads <= 0) {
    for (std::ptrdiff_t i = 0; i < count; ++i) task(i, stop);
    return true;
  }
  std::atomic<std::ptrdiff_t> next{0};
  std::mutex mutex;
  std::condition_variable finished;
  int running = 0;
  std::exception_ptr error;

  auto work = [&] {
    try {
      for (std::ptrdiff_t i; !stop && (i = next++) < count;) task(i, stop);
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
      stop = true;
    }
    std::lock_guard lock(mutex);
    --running;
    finished.notify_all();
  };

  const int workers = int(std::min<std::ptrdiff_t>(threads, count));
  std::vector<std::thread> pool;
  {
    std::unique_lock lock(mutex);
    pool.reserve(workers);
    for (int t = 0; t < workers; ++t) {
      ++running;
      try {
        pool.emplace_back(work);
      } catch (const std::exception&) {  // no more threads, or memory for one: those there are will do
        --running;
        break;
      }
    }
    if (pool.empty()) {
      lock.unlock();
      ++running;
      work();
      lock.lock();
    }
    while (!finished.wait_for(lock, std::chrono::milliseconds(50), [&] { return running == 0; })) {
      lock.unlock();
      if (!stop && interrupted()) stop = true;
      lock.lock();
    }
  }
  for (auto& thread : pool) thread.join();
  if (error) std::rethrow_exception(error);
  return !stop;
}

}  // namespace mercer
