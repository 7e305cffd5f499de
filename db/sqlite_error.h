// SQLite's result codes as Loopwright's.
#pragma once

#include <string>
#include <string_view>

#include "loopwright/base.h"

namespace loopwright::db {

/// `code` is an extended result code, `system_error` an errno or 0.
Error translate_sqlite_error(int code, int system_error, std::string_view detail, const std::string& path,
                             std::string_view asked);
/// A four-part error about a file.
Error make_file_error(ErrorCode code, std::string_view asked, std::string found, const std::string& path,
                      std::string works);
/// The same for a failed system call.
Error make_system_error(int system_error, std::string_view asked, const std::string& path);

}  // namespace loopwright::db
