! SPDX-License-Identifier: BSD-3-Clause
! What layout.c prints of the C structures, of the module's types.
program layout
  use limber
  implicit none

  call limber_format_layout()
  call limber_config_layout()
  call limber_allocator_layout()
  call limber_step_layout()
  call limber_unit_layout()
  call limber_contract_layout()
  call limber_part_layout()
  call limber_report_layout()
  call limber_matrix_layout()
  call limber_operand_config_layout()
  call limber_batch_layout()
  call limber_queue_layout()
  call limber_conv_layout()
  call limber_tile_layout()
  call limber_look_layout()
  call limber_cache_entry_layout()
  call limber_cache_info_layout()

contains

  subroutine put(kind, field, base, place, bytes)
    character(len=*), intent(in) :: kind, field
    type(c_ptr), intent(in) :: base, place
    integer(c_size_t), intent(in) :: bytes
    integer(c_intptr_t) :: from, to

    from = transfer(base, from)
    to = transfer(place, to)
    print '(a, 1x, a, 1x, i0, 1x, i0)', kind, field, to - from, bytes
  end subroutine

  subroutine limber_format_layout()
    type(limber_format), target :: x

    call put('limber_format', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_format', 'kind', c_loc(x), c_loc(x%kind), c_sizeof(x%kind))
    call put('limber_format', 'exp_bits', c_loc(x), c_loc(x%exp_bits), c_sizeof(x%exp_bits))
    call put('limber_format', 'frac_bits', c_loc(x), c_loc(x%frac_bits), c_sizeof(x%frac_bits))
    call put('limber_format', 'flags', c_loc(x), c_loc(x%flags), c_sizeof(x%flags))
    call put('limber_format', 'bias', c_loc(x), c_loc(x%bias), c_sizeof(x%bias))
    call put('limber_format', 'size', c_loc(x), c_loc(x%size), c_sizeof(x%size))
    call put('limber_format', 'carried', c_loc(x), c_loc(x%carried), c_sizeof(x%carried))
  end subroutine

  subroutine limber_config_layout()
    type(limber_config), target :: x

    call put('limber_config', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_config', 'backend', c_loc(x), c_loc(x%backend), c_sizeof(x%backend))
    call put('limber_config', 'threads', c_loc(x), c_loc(x%threads), c_sizeof(x%threads))
    call put('limber_config', 'cache_dir', c_loc(x), c_loc(x%cache_dir), c_sizeof(x%cache_dir))
    call put('limber_config', 'cache_bytes', c_loc(x), c_loc(x%cache_bytes), c_sizeof(x%cache_bytes))
    call put('limber_config', 'dump_dir', c_loc(x), c_loc(x%dump_dir), c_sizeof(x%dump_dir))
    call put('limber_config', 'verbose', c_loc(x), c_loc(x%verbose), c_sizeof(x%verbose))
    call put('limber_config', 'workspace_bytes', c_loc(x), c_loc(x%workspace_bytes), c_sizeof(x%workspace_bytes))
    call put('limber_config', 'log', c_loc(x), c_loc(x%log), c_sizeof(x%log))
    call put('limber_config', 'log_user', c_loc(x), c_loc(x%log_user), c_sizeof(x%log_user))
    call put('limber_config', 'device', c_loc(x), c_loc(x%device), c_sizeof(x%device))
    call put('limber_config', 'whole', c_loc(x), c_loc(x%whole), c_sizeof(x%whole))
    call put('limber_config', 'allocator', c_loc(x), c_loc(x%allocator), c_sizeof(x%allocator))
  end subroutine

  subroutine limber_allocator_layout()
    type(limber_allocator), target :: x

    call put('limber_allocator', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_allocator', 'alloc', c_loc(x), c_loc(x%alloc), c_sizeof(x%alloc))
    call put('limber_allocator', 'free', c_loc(x), c_loc(x%free), c_sizeof(x%free))
    call put('limber_allocator', 'user', c_loc(x), c_loc(x%user), c_sizeof(x%user))
  end subroutine

  subroutine limber_step_layout()
    type(limber_step), target :: x

    call put('limber_step', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_step', 'format', c_loc(x), c_loc(x%format), c_sizeof(x%format))
    call put('limber_step', 'rounding', c_loc(x), c_loc(x%rounding), c_sizeof(x%rounding))
    call put('limber_step', 'overflow', c_loc(x), c_loc(x%overflow), c_sizeof(x%overflow))
  end subroutine

  subroutine limber_unit_layout()
    type(limber_unit), target :: x

    call put('limber_unit', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_unit', 'a', c_loc(x), c_loc(x%a), c_sizeof(x%a))
    call put('limber_unit', 'b', c_loc(x), c_loc(x%b), c_sizeof(x%b))
    call put('limber_unit', 'scale', c_loc(x), c_loc(x%scale), c_sizeof(x%scale))
    call put('limber_unit', 'scale_rule', c_loc(x), c_loc(x%scale_rule), c_sizeof(x%scale_rule))
    call put('limber_unit', 'scale_block', c_loc(x), c_loc(x%scale_block), c_sizeof(x%scale_block))
    call put('limber_unit', 'mul', c_loc(x), c_loc(x%mul), c_sizeof(x%mul))
    call put('limber_unit', 'acc', c_loc(x), c_loc(x%acc), c_sizeof(x%acc))
    call put('limber_unit', 'block', c_loc(x), c_loc(x%block), c_sizeof(x%block))
    call put('limber_unit', 'sub', c_loc(x), c_loc(x%sub), c_sizeof(x%sub))
    call put('limber_unit', 'frac', c_loc(x), c_loc(x%frac), c_sizeof(x%frac))
    call put('limber_unit', 'floor', c_loc(x), c_loc(x%floor), c_sizeof(x%floor))
    call put('limber_unit', 'zeros', c_loc(x), c_loc(x%zeros), c_sizeof(x%zeros))
    call put('limber_unit', 'tree', c_loc(x), c_loc(x%tree), c_sizeof(x%tree))
    call put('limber_unit', 'order', c_loc(x), c_loc(x%order), c_sizeof(x%order))
    call put('limber_unit', 'group', c_loc(x), c_loc(x%group), c_sizeof(x%group))
    call put('limber_unit', 'outer', c_loc(x), c_loc(x%outer), c_sizeof(x%outer))
    call put('limber_unit', 'split', c_loc(x), c_loc(x%split), c_sizeof(x%split))
    call put('limber_unit', 'total', c_loc(x), c_loc(x%total), c_sizeof(x%total))
    call put('limber_unit', 'start_c', c_loc(x), c_loc(x%start_c), c_sizeof(x%start_c))
    call put('limber_unit', 'out', c_loc(x), c_loc(x%out), c_sizeof(x%out))
    call put('limber_unit', 'narrow', c_loc(x), c_loc(x%narrow), c_sizeof(x%narrow))
    call put('limber_unit', 'random_bits', c_loc(x), c_loc(x%random_bits), c_sizeof(x%random_bits))
    call put('limber_unit', 'seed', c_loc(x), c_loc(x%seed), c_sizeof(x%seed))
    call put('limber_unit', 'seeded', c_loc(x), c_loc(x%seeded), c_sizeof(x%seeded))
  end subroutine

  subroutine limber_contract_layout()
    type(limber_contract), target :: x

    call put('limber_contract', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_contract', 'promise', c_loc(x), c_loc(x%promise), c_sizeof(x%promise))
    call put('limber_contract', 'bits', c_loc(x), c_loc(x%bits), c_sizeof(x%bits))
    call put('limber_contract', 'scheme', c_loc(x), c_loc(x%scheme), c_sizeof(x%scheme))
    call put('limber_contract', 'slices', c_loc(x), c_loc(x%slices), c_sizeof(x%slices))
    call put('limber_contract', 'split', c_loc(x), c_loc(x%split), c_sizeof(x%split))
    call put('limber_contract', 'unit', c_loc(x), c_loc(x%unit), c_sizeof(x%unit))
    call put('limber_contract', 'statistics', c_loc(x), c_loc(x%statistics), c_sizeof(x%statistics))
    call put('limber_contract', 'on_miss', c_loc(x), c_loc(x%on_miss), c_sizeof(x%on_miss))
  end subroutine

  subroutine limber_part_layout()
    type(limber_part), target :: x

    call put('limber_part', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_part', 'scheme', c_loc(x), c_loc(x%scheme), c_sizeof(x%scheme))
    call put('limber_part', 'rows', c_loc(x), c_loc(x%rows), c_sizeof(x%rows))
    call put('limber_part', 'bound', c_loc(x), c_loc(x%bound), c_sizeof(x%bound))
    call put('limber_part', 'm', c_loc(x), c_loc(x%m), c_sizeof(x%m))
    call put('limber_part', 'n', c_loc(x), c_loc(x%n), c_sizeof(x%n))
    call put('limber_part', 'share', c_loc(x), c_loc(x%share), c_sizeof(x%share))
    call put('limber_part', 'cost', c_loc(x), c_loc(x%cost), c_sizeof(x%cost))
    call put('limber_part', 'seconds', c_loc(x), c_loc(x%seconds), c_sizeof(x%seconds))
    call put('limber_part', 'group', c_loc(x), c_loc(x%group), c_sizeof(x%group))
    call put('limber_part', 'kinds', c_loc(x), c_loc(x%kinds), c_sizeof(x%kinds))
    call put('limber_part', 'kernel', c_loc(x), c_loc(x%kernel), c_sizeof(x%kernel))
  end subroutine

  subroutine limber_report_layout()
    type(limber_report), target :: x

    call put('limber_report', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_report', 'scheme', c_loc(x), c_loc(x%scheme), c_sizeof(x%scheme))
    call put('limber_report', 'backend', c_loc(x), c_loc(x%backend), c_sizeof(x%backend))
    call put('limber_report', 'kernel', c_loc(x), c_loc(x%kernel), c_sizeof(x%kernel))
    call put('limber_report', 'rows', c_loc(x), c_loc(x%rows), c_sizeof(x%rows))
    call put('limber_report', 'pruned', c_loc(x), c_loc(x%pruned), c_sizeof(x%pruned))
    call put('limber_report', 'bound', c_loc(x), c_loc(x%bound), c_sizeof(x%bound))
    call put('limber_report', 'cost', c_loc(x), c_loc(x%cost), c_sizeof(x%cost))
    call put('limber_report', 'seconds_scan', c_loc(x), c_loc(x%seconds_scan), c_sizeof(x%seconds_scan))
    call put('limber_report', 'seconds_compile', c_loc(x), c_loc(x%seconds_compile), c_sizeof(x%seconds_compile))
    call put('limber_report', 'seconds_run', c_loc(x), c_loc(x%seconds_run), c_sizeof(x%seconds_run))
    call put('limber_report', 'from', c_loc(x), c_loc(x%from), c_sizeof(x%from))
    call put('limber_report', 'workspace', c_loc(x), c_loc(x%workspace), c_sizeof(x%workspace))
    call put('limber_report', 'recomputed', c_loc(x), c_loc(x%recomputed), c_sizeof(x%recomputed))
    call put('limber_report', 'parts', c_loc(x), c_loc(x%parts), c_sizeof(x%parts))
    call put('limber_report', 'part', c_loc(x), c_loc(x%part), c_sizeof(x%part))
  end subroutine

  subroutine limber_matrix_layout()
    type(limber_matrix), target :: x

    call put('limber_matrix', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_matrix', 'data', c_loc(x), c_loc(x%data), c_sizeof(x%data))
    call put('limber_matrix', 'format', c_loc(x), c_loc(x%format), c_sizeof(x%format))
    call put('limber_matrix', 'row', c_loc(x), c_loc(x%row), c_sizeof(x%row))
    call put('limber_matrix', 'col', c_loc(x), c_loc(x%col), c_sizeof(x%col))
  end subroutine

  subroutine limber_operand_config_layout()
    type(limber_prepare_config), target :: x

    call put('limber_prepare_config', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_prepare_config', 'bytes', c_loc(x), c_loc(x%bytes), c_sizeof(x%bytes))
    call put('limber_prepare_config', 'check', c_loc(x), c_loc(x%check), c_sizeof(x%check))
  end subroutine

  subroutine limber_batch_layout()
    type(limber_batch), target :: x

    call put('limber_batch', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_batch', 'count', c_loc(x), c_loc(x%count), c_sizeof(x%count))
    call put('limber_batch', 'a', c_loc(x), c_loc(x%a), c_sizeof(x%a))
    call put('limber_batch', 'b', c_loc(x), c_loc(x%b), c_sizeof(x%b))
    call put('limber_batch', 'c', c_loc(x), c_loc(x%c), c_sizeof(x%c))
    call put('limber_batch', 'pa', c_loc(x), c_loc(x%pa), c_sizeof(x%pa))
    call put('limber_batch', 'pb', c_loc(x), c_loc(x%pb), c_sizeof(x%pb))
    call put('limber_batch', 'pc', c_loc(x), c_loc(x%pc), c_sizeof(x%pc))
  end subroutine

  subroutine limber_queue_layout()
    type(limber_queue), target :: x

    call put('limber_queue', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_queue', 'stream', c_loc(x), c_loc(x%stream), c_sizeof(x%stream))
    call put('limber_queue', 'workspace', c_loc(x), c_loc(x%workspace), c_sizeof(x%workspace))
    call put('limber_queue', 'bytes', c_loc(x), c_loc(x%bytes), c_sizeof(x%bytes))
    call put('limber_queue', 'graph', c_loc(x), c_loc(x%graph), c_sizeof(x%graph))
  end subroutine

  subroutine limber_conv_layout()
    type(limber_conv), target :: x

    call put('limber_conv', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_conv', 'n', c_loc(x), c_loc(x%n), c_sizeof(x%n))
    call put('limber_conv', 'c', c_loc(x), c_loc(x%c), c_sizeof(x%c))
    call put('limber_conv', 'h', c_loc(x), c_loc(x%h), c_sizeof(x%h))
    call put('limber_conv', 'w', c_loc(x), c_loc(x%w), c_sizeof(x%w))
    call put('limber_conv', 'o', c_loc(x), c_loc(x%o), c_sizeof(x%o))
    call put('limber_conv', 'r', c_loc(x), c_loc(x%r), c_sizeof(x%r))
    call put('limber_conv', 's', c_loc(x), c_loc(x%s), c_sizeof(x%s))
    call put('limber_conv', 'stride', c_loc(x), c_loc(x%stride), c_sizeof(x%stride))
    call put('limber_conv', 'dilate', c_loc(x), c_loc(x%dilate), c_sizeof(x%dilate))
    call put('limber_conv', 'pad', c_loc(x), c_loc(x%pad), c_sizeof(x%pad))
    call put('limber_conv', 'groups', c_loc(x), c_loc(x%groups), c_sizeof(x%groups))
    call put('limber_conv', 'layout', c_loc(x), c_loc(x%layout), c_sizeof(x%layout))
  end subroutine

  subroutine limber_tile_layout()
    type(limber_tile), target :: x

    call put('limber_tile', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_tile', 'emin', c_loc(x), c_loc(x%emin), c_sizeof(x%emin))
    call put('limber_tile', 'emax', c_loc(x), c_loc(x%emax), c_sizeof(x%emax))
    call put('limber_tile', 'low', c_loc(x), c_loc(x%low), c_sizeof(x%low))
    call put('limber_tile', 'bits', c_loc(x), c_loc(x%bits), c_sizeof(x%bits))
    call put('limber_tile', 'flags', c_loc(x), c_loc(x%flags), c_sizeof(x%flags))
  end subroutine

  subroutine limber_look_layout()
    type(limber_inspection), target :: x

    call put('limber_inspection', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_inspection', 'lines', c_loc(x), c_loc(x%lines), c_sizeof(x%lines))
    call put('limber_inspection', 'length', c_loc(x), c_loc(x%length), c_sizeof(x%length))
    call put('limber_inspection', 'zero', c_loc(x), c_loc(x%zero), c_sizeof(x%zero))
    call put('limber_inspection', 'special', c_loc(x), c_loc(x%special), c_sizeof(x%special))
    call put('limber_inspection', 'negative', c_loc(x), c_loc(x%negative), c_sizeof(x%negative))
    call put('limber_inspection', 'emin', c_loc(x), c_loc(x%emin), c_sizeof(x%emin))
    call put('limber_inspection', 'emax', c_loc(x), c_loc(x%emax), c_sizeof(x%emax))
    call put('limber_inspection', 'spread', c_loc(x), c_loc(x%spread), c_sizeof(x%spread))
    call put('limber_inspection', 'width', c_loc(x), c_loc(x%width), c_sizeof(x%width))
    call put('limber_inspection', 'bits', c_loc(x), c_loc(x%bits), c_sizeof(x%bits))
    call put('limber_inspection', 'tile_rows', c_loc(x), c_loc(x%tile_rows), c_sizeof(x%tile_rows))
    call put('limber_inspection', 'tile_cols', c_loc(x), c_loc(x%tile_cols), c_sizeof(x%tile_cols))
    call put('limber_inspection', 'tile', c_loc(x), c_loc(x%tile), c_sizeof(x%tile))
  end subroutine

  subroutine limber_cache_entry_layout()
    type(limber_cache_entry), target :: x

    call put('limber_cache_entry', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_cache_entry', 'key', c_loc(x), c_loc(x%key), c_sizeof(x%key))
    call put('limber_cache_entry', 'plan', c_loc(x), c_loc(x%plan), c_sizeof(x%plan))
    call put('limber_cache_entry', 'bytes', c_loc(x), c_loc(x%bytes), c_sizeof(x%bytes))
    call put('limber_cache_entry', 'used', c_loc(x), c_loc(x%used), c_sizeof(x%used))
    call put('limber_cache_entry', 'good', c_loc(x), c_loc(x%good), c_sizeof(x%good))
    call put('limber_cache_entry', 'foreign', c_loc(x), c_loc(x%foreign), c_sizeof(x%foreign))
  end subroutine

  subroutine limber_cache_info_layout()
    type(limber_cache_info), target :: x

    call put('limber_cache_info', '-', c_loc(x), c_loc(x), c_sizeof(x))
    call put('limber_cache_info', 'directory', c_loc(x), c_loc(x%directory), c_sizeof(x%directory))
    call put('limber_cache_info', 'why_not', c_loc(x), c_loc(x%why_not), c_sizeof(x%why_not))
    call put('limber_cache_info', 'writable', c_loc(x), c_loc(x%writable), c_sizeof(x%writable))
    call put('limber_cache_info', 'entries', c_loc(x), c_loc(x%entries), c_sizeof(x%entries))
    call put('limber_cache_info', 'bytes', c_loc(x), c_loc(x%bytes), c_sizeof(x%bytes))
    call put('limber_cache_info', 'limit', c_loc(x), c_loc(x%limit), c_sizeof(x%limit))
    call put('limber_cache_info', 'tuned', c_loc(x), c_loc(x%tuned), c_sizeof(x%tuned))
  end subroutine
end program
