#include "src/codegen/llvm/image.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELF.h>

#include <cstring>
#include <optional>

namespace loopwright::codegen {
namespace {

using Elf = llvm::object::ELFFile<llvm::object::ELF64LE>;
using Section = llvm::object::ELF64LE::Shdr;

Error image_error(std::string found) {
  return Error{ErrorCode::compile_failed, "making a position-independent image of the machine code", std::move(found),
               "", "code and read-only constants that refer to each other relative to the program counter"};
}

template <class T>
Result<T> take(llvm::Expected<T> value) {
  if (!value) return image_error("unreadable object: " + llvm::toString(value.takeError()));
  return std::move(*value);
}

class Layout {
 public:
  explicit Layout(const Elf& elf) : elf_(elf) {}

  Result<Image> make() {
    LW_TRY(const auto sections, take(elf_.sections()));
    offsets_.resize(sections.size());
    // Code first, so that the image begins with instructions.
    for (const bool code : {true, false}) {
      for (std::size_t i = 0; i < sections.size(); ++i) {
        if (((sections[i].sh_flags & llvm::ELF::SHF_EXECINSTR) != 0) == code) LW_CHECK(place(sections[i], i));
      }
    }
    for (const Section& s : sections) {
      if (s.sh_type == llvm::ELF::SHT_SYMTAB) LW_CHECK(read_functions(s));
    }
    for (const Section& s : sections) {
      if (s.sh_type == llvm::ELF::SHT_RELA && s.sh_info < offsets_.size() && offsets_[s.sh_info]) LW_CHECK(relocate(s));
    }
    return std::move(image_);
  }

 private:
  Status place(const Section& s, std::size_t index) {
    if ((s.sh_flags & llvm::ELF::SHF_ALLOC) == 0 || s.sh_size == 0) return Unit{};
    LW_TRY(const auto name, take(elf_.getSectionName(s)));
    if (name == ".eh_frame") return Unit{};  // nothing unwinds through kernels
    if ((s.sh_flags & llvm::ELF::SHF_WRITE) != 0) return image_error("section `" + name.str() + "` is writable data");
    LW_TRY(const auto contents, take(elf_.getSectionContents(s)));
    const std::uint64_t align = std::max<std::uint64_t>(1, s.sh_addralign);
    image_.bytes.resize((image_.bytes.size() + align - 1) / align * align, 0xcc);
    offsets_[index] = image_.bytes.size();
    image_.bytes.insert(image_.bytes.end(), contents.begin(), contents.end());
    return Unit{};
  }

  Status read_functions(const Section& table) {
    LW_TRY(const auto symbols, take(elf_.symbols(&table)));
    LW_TRY(const auto names, take(elf_.getStringTableForSymtab(table)));
    for (const auto& symbol : symbols) {
      if (symbol.getType() != llvm::ELF::STT_FUNC || symbol.st_shndx >= offsets_.size()) continue;
      if (!offsets_[symbol.st_shndx]) continue;
      LW_TRY(const auto name, take(symbol.getName(names)));
      image_.functions[name.str()] = *offsets_[symbol.st_shndx] + symbol.st_value;
    }
    return Unit{};
  }

  Result<std::uint64_t> find_symbol(const Section& table, std::uint32_t index) {
    LW_TRY(const auto* symbol, take(elf_.getSymbol(&table, index)));
    LW_TRY(const auto names, take(elf_.getStringTableForSymtab(table)));
    LW_TRY(const auto name, take(symbol->getName(names)));
    if (symbol->st_shndx == llvm::ELF::SHN_UNDEF) {
      return image_error("the code needs `" + name.str() + "`, which only a library could provide");
    }
    if (symbol->st_shndx >= offsets_.size() || !offsets_[symbol->st_shndx]) {
      return image_error("the code refers to `" + name.str() + "` in a section that is not part of the image");
    }
    return *offsets_[symbol->st_shndx] + symbol->st_value;
  }

  Status relocate(const Section& s) {
    LW_TRY(const auto* table, take(elf_.getSection(s.sh_link)));
    LW_TRY(const auto relocations, take(elf_.relas(s)));
    for (const auto& r : relocations) {
      LW_TRY(const std::uint64_t symbol, find_symbol(*table, r.getSymbol(false)));
      const std::uint64_t place = *offsets_[s.sh_info] + r.r_offset;
      const std::int64_t value = static_cast<std::int64_t>(symbol) + r.r_addend - static_cast<std::int64_t>(place);
      const std::uint32_t type = r.getType(false);
      const bool wide = type == llvm::ELF::R_X86_64_PC64;
      if (!wide && type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32) {
        return image_error("relocation " + llvm::object::getELFRelocationTypeName(llvm::ELF::EM_X86_64, type).str() +
                          " is not relative");
      }
      const std::size_t width = wide ? 8 : 4;
      if (place + width > image_.bytes.size()) return image_error("a relocation lies outside its section");
      if (!wide && value != static_cast<std::int32_t>(value)) return image_error("code and constants are over 2 GiB apart");
      std::memcpy(image_.bytes.data() + place, &value, width);
    }
    return Unit{};
  }

  const Elf& elf_;
  Image image_;
  std::vector<std::optional<std::uint64_t>> offsets_;  ///< of each section, when it is part of the image
};

}  // namespace

Result<Image> make_image(const std::vector<std::uint8_t>& elf_object) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(elf_object.data()), elf_object.size());
  LW_TRY(const auto elf, take(Elf::create(bytes)));
  return Layout(elf).make();
}

}  // namespace loopwright::codegen
