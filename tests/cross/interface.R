# Writes the arguments that the R package accepts, for a comparison with Python:
#   Rscript interface.R FILE.json
interface <- list(
  sampling = names(c(llamaherd:::sampling_kinds, llamaherd:::further_kinds)),
  defaults = Filter(
    \(value) is.numeric(value) || is.logical(value),
    as.list(formals(llamaherd::generate_parallel))
  ),
  context_defaults = Filter(
    is.character,
    as.list(formals(llamaherd::context_create))
  ),
  context = names(formals(llamaherd::context_create)),
  embed = names(formals(llamaherd::embed_parallel)),
  context_dots = llamaherd:::context_options
)
jsonlite::write_json(interface, commandArgs(TRUE)[[1]], auto_unbox = TRUE)
