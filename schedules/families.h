// The templates, one pair of functions a family: does it apply, and the schedule itself.
#pragma once

#include "loopwright/schedule.h"

namespace loopwright::schedules {

bool is_elementwise(const Schedule& s);
void schedule_elementwise(Schedule& s, Space& k);

bool is_transpose(const Schedule& s);
void schedule_transpose(Schedule& s, Space& k);

bool is_row_reduction(const Schedule& s);
void schedule_row_reduction(Schedule& s, Space& k);

bool is_column_reduction(const Schedule& s);
void schedule_column_reduction(Schedule& s, Space& k);

bool is_full_reduction(const Schedule& s);
void schedule_full_reduction(Schedule& s, Space& k);

bool is_matmul(const Schedule& s);
void schedule_matmul(Schedule& s, Space& k);

bool is_matrix_vector(const Schedule& s);
void schedule_matrix_vector(Schedule& s, Space& k);

bool is_anything(const Schedule& s);
void schedule_general(Schedule& s, Space& k);

void schedule_gpu_elementwise(Schedule& s, Space& k);
void schedule_gpu_full_reduction(Schedule& s, Space& k);
void schedule_gpu_column_reduction(Schedule& s, Space& k);
void schedule_gpu_transpose(Schedule& s, Space& k);
bool is_gpu_matrix_vector(const Schedule& s);
void schedule_gpu_matrix_vector(Schedule& s, Space& k);
bool is_gpu_matmul(const Schedule& s);
void schedule_gpu_matmul(Schedule& s, Space& k);

bool is_gpu_scatter(const Schedule& s);
void schedule_gpu_scatter(Schedule& s, Space& k);
bool is_gpu_scan(const Schedule& s);
void schedule_gpu_scan(Schedule& s, Space& k);
void schedule_gpu_row(Schedule& s, Space& k);
void schedule_gpu_general(Schedule& s, Space& k);

}  // namespace loopwright::schedules
