"""Export of runs to other formats: Perfetto traces, tables and TensorBoard event files."""
