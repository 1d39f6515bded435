# explore(): several models answer the same prompts. Help: localllm.R.

#' @rdname localLLM
#' @export
explore <- function(
  models,
  instruction = NULL,
  prompts = NULL,
  engine = c("auto", "parallel", "single"),
  batch_size = 8L,
  reuse_models = FALSE,
  sink = NULL,
  progress = interactive(),
  clean = TRUE,
  keep_prompts = FALSE,
  hash = TRUE,
  chat_template = TRUE,
  system_prompt = NULL
) {
  check_given(models)
  settings <- list(
    engine = check_choice(engine, c("auto", "parallel", "single")),
    batch_size = max(check_whole(batch_size), 1L),
    reuse_models = check_flag(reuse_models),
    progress = check_flag(progress),
    clean = check_flag(clean),
    keep_prompts = check_flag(keep_prompts)
  )
  if (!is.null(sink) && !is.function(sink)) {
    abort_argument("sink", "NULL or a function", sink)
  }
  check_flag(hash)
  defaults <- list(
    prompts = prompts,
    instruction = check_string(instruction, null = TRUE),
    chat_template = check_flag(chat_template),
    system_prompt = check_string(system_prompt, null = TRUE)
  )
  specs <- explore_specs(models, defaults)
  inputs <- lapply(specs, explore_input)
  document_event("explore_start", models = names(specs))
  runs <- list()
  interrupted <- NULL # results of the model that Ctrl-C interrupted
  is_over <- FALSE
  on.exit({
    if (!is_over && is.null(sink) && length(runs) > 0) {
      keep_results(structure(explore_result(runs, hash), interrupted = interrupted))
    }
  })
  withCallingHandlers(
    for (id in names(specs)) {
      runs[[id]] <- explore_model(specs[[id]], inputs[[id]], sink, settings)
    },
    llamaherd_interrupt = \(cnd) interrupted <<- cnd$results
  )
  result <- explore_result(runs, hash, keep = is.null(sink))
  document_event("explore_complete", models = names(specs))
  is_over <- TRUE
  result
}

spec_fields <- c(
  c("id", "model_path", "predictor", "n_gpu_layers", "n_ctx", "n_threads", "n_seq_max"),
  c("cache_dir", "use_mmap", "use_mlock", "check_memory", "force_redownload"),
  c("verify_integrity", "hf_token", "verbosity", "chat_template", "system_prompt"),
  c("instruction", "generation", "prompts")
)

# Returns a list of complete specifications, named by their ids.
explore_specs <- function(models, defaults) {
  is_single <- inherits(models, "llamaherd_model") ||
    any(c("model_path", "predictor") %in% names(models))
  models <- if (is_single) list(models) else models
  if (length(models) == 0 || !(is.list(models) || is.character(models))) {
    must <- "paths of models, or a list of specifications (none are given)"
    abort_argument("models", must, models)
  }
  names <- rlang::names2(models)
  names[!nzchar(names)] <- sprintf("model_%d", seq_along(models))[!nzchar(names)]
  specs <- lapply(seq_along(models), \(i) {
    spec <- model_spec(models[[i]], sprintf("models[[%d]]", i))
    spec$id <- spec$id %||% names[[i]]
    check_string(spec$id, sprintf("models[[%d]]$id", i))
    for (name in names(defaults)) {
      spec[name] <- list(spec[[name]] %||% defaults[[name]])
    }
    if (is.null(spec$prompts)) {
      problem <- "Model {.val {spec$id}} has no prompts."
      hint <- "Give {.arg prompts}, such as a character vector, for all models or in its
               specification."
      abort(c(problem, i = hint))
    }
    spec
  })
  ids <- vapply(specs, \(spec) spec$id, "")
  if (anyDuplicated(ids)) {
    problem <- "Two models have the id {.val {ids[duplicated(ids)][[1]]}}."
    abort(c(problem, i = "Give each an {.field id}."))
  }
  rlang::set_names(specs, ids)
}

model_spec <- function(x, arg) {
  if (inherits(x, "llamaherd_model")) {
    check_model(x, arg)
    return(list(loaded = x))
  }
  if (is.character(x) && length(x) == 1) {
    return(list(model_path = x))
  }
  if (!is.list(x) || !rlang::is_named(x)) {
    abort_argument(arg, "a path, a named list or a <llamaherd_model>", x)
  }
  unknown <- setdiff(names(x), c(spec_fields, "loaded"))
  problem <- if (length(unknown) > 0) {
    c(
      "{.code {arg}} has an unknown field: {.field {unknown[[1]]}}.",
      i = if ("model" %in% unknown) {
        "This field is called {.field model_path}, not {.field model}."
      },
      i = "Known fields are {.field {spec_fields}}."
    )
  } else if (is.null(x$loaded %||% x$model_path) && !is.function(x$predictor)) {
    "{.code {arg}} needs {.field model_path}, or a function as {.field predictor}."
  }
  if (!is.null(problem)) {
    abort(problem)
  }
  x
}

# Returns the rows and the hashes of one model.
explore_model <- function(spec, input, sink, settings) {
  n <- length(input$prompts)
  rows <- data.frame(
    sample_id = input$sample_id,
    model_id = rep(spec$id, n),
    label = rep(NA_character_, n)
  )
  rows$truth <- input$truth
  if (settings$keep_prompts) {
    rows$prompt <- input$prompts
  }
  is_single <- settings$engine == "single" ||
    settings$engine == "auto" &&
      (settings$batch_size == 1L || identical(as.integer(spec$n_seq_max), 1L))
  answer <- if (is.function(spec$predictor)) {
    \(prompts) predicted_labels(spec, prompts)
  } else {
    context <- explore_context(spec, is_single, settings)
    on.exit(close_explored(spec, context, settings))
    \(prompts) answers_of(spec, context, prompts, settings)
  }
  size <- if (is.null(sink)) max(n, 1L) else max(settings$batch_size, 200L)
  for (start in seq(1L, max(n, 1L), by = size)) {
    these <- seq_len(min(size, n - start + 1L)) + start - 1L
    rows$label[these] <- answer(input$prompts[these])
    if (!is.null(sink)) {
      chunk <- rows[these, , drop = FALSE]
      keeping(chunk, sink(chunk, spec$id))
    }
  }
  hashes <- list(
    input_hash = lines_sha256(input$prompts),
    output_hash = lines_sha256(rows$label)
  )
  engine <- if (is_single) "single" else "parallel"
  engine <- if (is.function(spec$predictor)) "predictor" else engine
  document_event(
    "explore_model",
    model_id = spec$id,
    n_prompts = n,
    engine = engine,
    hashes
  )
  list(rows = rows, hashes = data.frame(model_id = spec$id, hashes))
}

predicted_labels <- function(spec, prompts) {
  labels <- spec$predictor(prompts, NULL, spec)
  labels <- if (anyNA(labels)) as.character(labels) else label_values(labels)
  if (!is.character(labels) || length(labels) != length(prompts)) {
    abort(
      "The {.field predictor} of model {.val {spec$id}} must return a character vector of
       length {length(prompts)}, not {describe(labels)}."
    )
  }
  unname(labels)
}

explore_context <- function(spec, is_single, settings) {
  key <- paste(spec$id, spec$model_path)
  model <- spec$loaded %||% the$explored[[key]]
  if (is.null(model) || !is.null(object_problem(model))) {
    if (settings$progress) {
      cli::cli_inform("[{spec$id}] Loading {spec$model_path} ...")
    }
    loading <- spec[intersect(names(spec), names(formals(model_load)))]
    model <- do.call(model_load, utils::modifyList(list(verbosity = 0L), loading))
  }
  if (settings$reuse_models && is.null(spec$loaded)) {
    the$explored[[key]] <- model
  }
  sizes <- spec[intersect(names(spec), c("n_ctx", "n_threads", "n_seq_max"))]
  if (is_single) {
    sizes$n_seq_max <- 1L
  }
  do.call(context_create, c(list(model), sizes))
}

close_explored <- function(spec, context, settings) {
  close(context)
  if (is.null(spec$loaded) && !settings$reuse_models) {
    close(context$model)
  }
}

answers_of <- function(spec, context, prompts, settings) {
  if (settings$progress) {
    cli::cli_inform("[{spec$id}] Answering {length(prompts)} prompt{?s} ...")
  }
  options <- list(max_tokens = 100L, temperature = 0, seed = 1234L, hash = FALSE)
  options <- utils::modifyList(options, as.list(spec$generation))
  if (spec$chat_template) {
    options[c("chat", "system")] <- list(TRUE, spec$system_prompt)
  } else if (!is.null(spec$system_prompt)) {
    prompts <- paste0(spec$system_prompt, "\n\n", prompts)
  }
  options[c("progress", "clean")] <- settings[c("progress", "clean")]
  unname(plain(do.call(generate_parallel, c(list(context, prompts), options))))
}

explore_result <- function(runs, hash, keep = TRUE) {
  result <- list(annotations = NULL, matrix = NULL)
  if (keep) {
    rows <- lapply(runs, \(run) run$rows)
    present <- unique(unlist(lapply(rows, names)))
    columns <- intersect(c("sample_id", "model_id", "label", "truth", "prompt"), present)
    rows <- lapply(rows, \(x) {
      x[setdiff(columns, names(x))] <- rep(NA, nrow(x))
      x[columns]
    })
    result$annotations <- do.call(rbind, unname(rows))
    result$matrix <- explore_matrix(rows)
  }
  hashes <- do.call(rbind, unname(lapply(runs, \(run) run$hashes)))
  if (hash) structure(result, hashes = hashes) else result
}

explore_matrix <- function(rows) {
  ids <- lapply(rows, \(x) value_text(x$sample_id))
  samples <- unique(unlist(ids))
  is_same <- identical(samples, ids[[1]])
  matrix <- data.frame(sample_id = if (is_same) rows[[1]]$sample_id else samples)
  for (name in names(rows)) {
    at <- match(samples, ids[[name]])
    matrix[[name]] <- rows[[name]]$label[at]
    for (extra in intersect(c("truth", "prompt"), names(rows[[name]]))) {
      matrix[[paste0(extra, "_", name)]] <- rows[[name]][[extra]][at]
    }
  }
  matrix
}

# Returns list(prompts, sample_id, truth) of one model.
explore_input <- function(spec) {
  x <- spec$prompts
  if (is.function(x)) {
    x <- x(spec)
  }
  input <- if (!is.list(x)) {
    list(prompts = x)
  } else if (any(c("prompts", "prompt") %in% names(x))) {
    list(
      prompts = x[["prompts"]] %||% x[["prompt"]],
      sample_id = x$sample_id,
      truth = x$truth
    )
  } else {
    from_template(x)
  }
  if (is.factor(input$prompts)) {
    input$prompts <- as.character(input$prompts)
  }
  if (!is.character(input$prompts)) {
    must <- "a character vector, a data frame with a column prompt, a template or a function"
    abort_argument("prompts", must, x)
  }
  n <- length(input$prompts)
  for (name in c("sample_id", "truth")) {
    if (!is.null(input[[name]]) && length(input[[name]]) != n) {
      abort(
        "{.field {name}} must be as long as the prompts ({n}), not {length(input[[name]])}."
      )
    }
  }
  list(
    prompts = unname(input$prompts),
    sample_id = unname(input$sample_id %||% seq_len(n)),
    truth = if (!is.null(input$truth)) value_text(input$truth)
  )
}

from_template <- function(x) {
  if (!rlang::is_named(x)) {
    abort_argument("prompts", "a template with a name for each section", x)
  }
  x <- as.list(x)
  shown <- x[setdiff(names(x), c("sample_id", "truth", "format"))]
  vectors <- shown[vapply(shown, is.atomic, NA)]
  n <- if (is.null(x$sample_id)) max(lengths(vectors), 1L) else length(x$sample_id)
  sections <- Map(
    \(name, value) {
      paste0("## ", name, "\n", rep_len(template_section(value, n, name), n))
    },
    names(shown),
    shown
  )
  prompts <- if (length(sections) > 0) {
    do.call(paste, c(unname(sections), sep = "\n\n"))
  } else {
    character()
  }
  list(prompts = prompts, sample_id = x$sample_id, truth = x$truth)
}

# Returns the texts of a section: one text per sample, or one text for all samples.
template_section <- function(value, n, title) {
  if (is.data.frame(value)) {
    value <- lapply(seq_len(nrow(value)), \(i) as.list(value[i, , drop = FALSE]))
  }
  if (is.list(value)) {
    is_block <- vapply(value, \(x) is.list(x) && rlang::is_named(x), NA)
    is_blocks <- is.null(names(value)) && all(is_block)
    # Blocks of "Examples" are "Example 1", "Example 2" and so on.
    names <- rlang::names2(value)
    if (is_blocks) {
      names <- paste(sub("s$", "", title), seq_along(value))
    }
    parts <- Map(
      \(name, x) paste0("### ", name, "\n", section_part(x, name, is_blocks)),
      names,
      value
    )
    return(paste(unlist(parts), collapse = "\n\n"))
  }
  value <- enc2utf8(value_text(value))
  if (length(value) == n || length(value) == 1) value else bullets(value)
}

section_part <- function(x, name, is_block) {
  if (!is_block) {
    return(template_section(x, 0L, name))
  }
  cells <- vapply(x, \(cell) paste(value_text(cell), collapse = ", "), "")
  bullets(paste0(names(x), ": ", cells))
}

bullets <- \(lines) paste0("- ", lines, collapse = "\n")

#' @rdname localLLM
#' @export
annotation_sink_csv <- function(path, append = FALSE) {
  path <- expand_path(check_string(path))
  append <- check_flag(append)
  check_folder(path)
  path <- full_path(path) # the working directory may change before the next chunk
  has_header <- append && file_exists(path) && file.size(native_path(path)) > 0
  is_begun <- append
  function(chunk, model_id) {
    if (!is.data.frame(chunk)) {
      abort_argument("chunk", "a data frame", chunk)
    }
    rows <- do.call(paste, c(unname(lapply(chunk, csv_cells)), sep = ","))
    header <- if (!has_header) paste(csv_cells(names(chunk)), collapse = ",")
    write <- if (is_begun) "append_lines" else "replace_lines"
    rest <- "The rows of this chunk are not in the file, those before are."
    written(path, rest, write, as_py_list(c(header, if (nrow(chunk) > 0) rows)))
    is_begun <<- TRUE
    has_header <<- TRUE
    invisible(model_id)
  }
}

csv_cells <- function(x) {
  cells <- if (is.numeric(x) || is.logical(x)) {
    vapply(x, format, "", digits = 15L, decimal.mark = ".", USE.NAMES = FALSE)
  } else {
    paste0("\"", gsub("\"", "\"\"", enc2utf8(as.character(x)), fixed = TRUE), "\"")
  }
  ifelse(is.na(x), "NA", cells)
}
