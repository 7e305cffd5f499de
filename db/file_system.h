// What kind of disk a file is on: write-ahead logs need shared memory, which network file systems do not have.
#pragma once

#include <string>

namespace loopwright::db {

struct FileSystem {
  std::string name;  ///< `ext4`, `nfs`, ... or the magic number in hexadecimal
  bool is_network = false;
};
/// Of the folder that holds `path`, which need not exist itself. Unknown kinds count as local.
FileSystem find_file_system(const std::string& path);

}  // namespace loopwright::db
