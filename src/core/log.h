// Logging: spdlog to stderr. The library is quiet (warnings only) until an application raises the
// level.
#pragma once

#include <spdlog/spdlog.h>

namespace fathom::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace fathom::log
