#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright {

const std::vector<Template>& catalogue() {
  using namespace schedules;
  static const std::vector<Template> kTemplates = {
      {"elementwise", 2, TargetKind::cpu, is_elementwise, schedule_elementwise},
      {"transpose", 1, TargetKind::cpu, is_transpose, schedule_transpose},
      {"matrix_vector", 1, TargetKind::cpu, is_matrix_vector, schedule_matrix_vector},
      {"matmul", 2, TargetKind::cpu, is_matmul, schedule_matmul},
      {"row_reduction", 2, TargetKind::cpu, is_row_reduction, schedule_row_reduction},
      {"full_reduction", 1, TargetKind::cpu, is_full_reduction, schedule_full_reduction},
      {"column_reduction", 2, TargetKind::cpu, is_column_reduction, schedule_column_reduction},
      {"gpu_scatter", 1, TargetKind::cuda, is_gpu_scatter, schedule_gpu_scatter},
      {"gpu_scan", 1, TargetKind::cuda, is_gpu_scan, schedule_gpu_scan},
      {"gpu_transpose", 2, TargetKind::cuda, is_transpose, schedule_gpu_transpose},
      {"gpu_elementwise", 1, TargetKind::cuda, is_elementwise, schedule_gpu_elementwise},
      {"gpu_matrix_vector", 1, TargetKind::cuda, is_gpu_matrix_vector, schedule_gpu_matrix_vector},
      {"gpu_matmul", 5, TargetKind::cuda, is_gpu_matmul, schedule_gpu_matmul},
      {"gpu_row", 2, TargetKind::cuda, reduces_rows, schedule_gpu_row},
      {"gpu_full_reduction", 2, TargetKind::cuda, is_full_reduction, schedule_gpu_full_reduction},
      {"gpu_column_reduction", 3, TargetKind::cuda, is_column_reduction, schedule_gpu_column_reduction},
      {"gpu_general", 1, TargetKind::cuda, is_anything, schedule_gpu_general},
      {"general", 1, TargetKind::cpu, is_anything, schedule_general},
  };
  return kTemplates;
}

}  // namespace loopwright
