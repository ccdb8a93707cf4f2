target_sources(gpupeak PRIVATE
  base/copied_memory.cc stack/python_frames.cc stack/python_layout.cc stack/python_lines.cc stack/python_runtime.cc
  stack/python_stack.cc)
