// Tasks on threads of one call.
#include "mercer/threads.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace mercer {

namespace {

// The threads of one call. One that the system starts late, as on a busy machine, finds the crew
// closed and ends without having touched anything of the call, which need not wait for it.
struct Crew {
  std::mutex mutex;
  std::condition_variable changed;
  int working = 0;
  bool closed = false;
  std::exception_ptr error;
};

}  // namespace

bool share(std::ptrdiff_t count, int threads, Borrowed<void(std::ptrdiff_t, const Stop&)> task,
           Interrupted interrupted) {
  Stop stop{false};
  if (threads <= 0) {
    for (std::ptrdiff_t i = 0; i < count; ++i) task(i, stop);
    return true;
  }
  std::atomic<std::ptrdiff_t> next{0};
  auto crew = std::make_shared<Crew>();

  auto work = [&] {
    try {
      for (std::ptrdiff_t i; !stop && (i = next++) < count;) task(i, stop);
    } catch (...) {
      std::lock_guard lock(crew->mutex);
      crew->error = std::current_exception();
      stop = true;
    }
  };
  auto member = [crew, &work] {
    {
      std::lock_guard lock(crew->mutex);
      if (crew->closed) return;
      ++crew->working;
    }
    work();
    std::lock_guard lock(crew->mutex);
    --crew->working;
    crew->changed.notify_all();
  };

  const int workers = int(std::min<std::ptrdiff_t>(threads, count));
  int started = 0;
  try {
    for (; started < workers; ++started) std::thread(member).detach();
  } catch (const std::exception&) {  // no more threads, or memory for one: those there are will do
  }
  if (started == 0) work();
  std::unique_lock lock(crew->mutex);
  const auto finished = [&] { return crew->working == 0 && (stop || next >= count); };
  while (!crew->changed.wait_for(lock, std::chrono::milliseconds(50), finished)) {
    lock.unlock();
    if (!stop && interrupted()) stop = true;
    lock.lock();
  }
  crew->closed = true;
  if (crew->error) std::rethrow_exception(crew->error);
  return !stop;
}

}  // namespace mercer
