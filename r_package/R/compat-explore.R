#' Annotate the same texts with several models
#'
#' Each model answers the same prompts, or its own prompts; the answers are returned as two tables,
#' one in long form and one in wide form. [validate_models()] compares the models with each other
#' and with human codes. For codebooks, probabilities and estimates see [annotate_texts()].
#'
#' @section Prompts:
#' `prompts`, for all models or in the specification of one model, is one of:
#'
#' * a character vector;
#' * a data frame with the column `prompt` and optionally `sample_id` and `truth`;
#' * a list with `prompts` and optionally `sample_id` and `truth`;
#' * a function of a model's specification that returns one of these three forms;
#' * a template: a named list, or a data frame without a column `prompt`. Each element of a template
#'   becomes a section `## <name>`, in order. An element with one value per sample gives each prompt
#'   its own value; a single text is used in all prompts; any other vector becomes a bulleted list,
#'   a data frame becomes blocks, and a list becomes subsections. The elements `sample_id`, `truth`
#'   and `format` are not shown to the model. The number of samples is the length of `sample_id`, or
#'   of the longest vector.
#'
#' @param models Models: the path of a model (or another name that [model_load()] accepts), a named
#'   vector of paths, or a list of specifications (named lists) and loaded `llamaherd_model`s. A
#'   specification has either `model_path` or `predictor`. `predictor` is a function that returns
#'   one label per prompt; its arguments are `prompts`, `data` (NULL) and the specification. A
#'   specification may also have `id`, `n_gpu_layers`, `n_ctx`, `n_threads`, `n_seq_max`,
#'   `cache_dir`, `use_mmap`, `use_mlock`, `check_memory`, `force_redownload`, `verify_integrity`,
#'   `hf_token`, `verbosity`, `chat_template`, `system_prompt`, `instruction`, `prompts`, and
#'   `generation`, a list of arguments of [generate_parallel()].
#' @param instruction Text that is stored as `instruction` in each specification, for functions that
#'   receive the specification.
#' @param prompts Prompts; see below.
#' @param engine `"parallel"` runs many prompts at a time, `"single"` runs one at a time; `"auto"`
#'   uses `"parallel"` unless `n_seq_max` of a specification or `batch_size` is 1.
#' @param batch_size With a `sink`: number of prompts that are answered together before the sink is
#'   called; values below 200 mean 200. Without a sink all prompts are answered together.
#' @param reuse_models TRUE keeps models loaded for later calls in this session.
#' @param sink Function with the arguments `chunk`, a data frame like `annotations`, and `model_id`,
#'   such as the return value of [annotation_sink_csv()]. The sink is called with rows as soon as
#'   they are finished. With a sink, results are not kept in memory, and `annotations` and `matrix`
#'   are NULL.
#' @param progress TRUE shows progress.
#' @param clean TRUE removes surrounding white space and chat template markers from answers.
#' @param keep_prompts TRUE adds the column `prompt`.
#' @param hash TRUE adds the attribute `hashes`.
#' @param chat_template TRUE formats prompts as user messages for a chat model; FALSE continues them
#'   as plain text.
#' @param system_prompt Text of a system message before each prompt. NULL uses none.
#' @returns A list with
#'
#'   * `annotations`: a data frame with the columns `sample_id`, `model_id`, `label` and, if they
#'     exist, `truth` and `prompt`; the rows of the models one after the other. NA where a prompt
#'     failed.
#'   * `matrix`: a data frame with one row per sample and one column per model, named by the models,
#'     and columns with the prefixes `truth_` and `prompt_`.
#'
#'   The attribute `hashes` is a data frame with `model_id`, `input_hash` and `output_hash`: the
#'   SHA-256 of the model's prompts and labels, each followed by a newline, as `sha256sum` computes
#'   it for a file with these lines.
#' @export
#' @examplesIf llamaherd_available()
#' # Rules instead of models; `model_path` in place of `predictor` loads a model.
#' rules <- list(
#'   list(id = "words", predictor = \(prompts, data, spec) {
#'     ifelse(grepl("love", prompts), "positive", "negative")
#'   }),
#'   list(id = "always", predictor = \(prompts, data, spec) rep("positive", length(prompts)))
#' )
#' texts <- c("I love it.", "It broke.", "Lovely!")
#' result <- explore(rules, prompts = texts)
#' result$matrix
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
  error_call <- rlang::current_env()
  check_given(models)
  settings <- list(
    engine = check_choice(engine, c("auto", "parallel", "single")),
    batch_size = check_whole(batch_size, min = 1),
    reuse_models = check_flag(reuse_models),
    progress = check_flag(progress),
    clean = check_flag(clean),
    keep_prompts = check_flag(keep_prompts)
  )
  if (!is.null(sink) && !is.function(sink)) {
    abort_argument("sink", "NULL or a function", sink, error_call)
  }
  settings["sink"] <- list(sink)
  check_flag(hash)
  defaults <- list(
    instruction = check_string(instruction, null = TRUE),
    chat_template = check_flag(chat_template),
    system_prompt = check_string(system_prompt, null = TRUE)
  )
  specs <- explore_specs(models, defaults, prompts, error_call)
  inputs <- lapply(specs, explore_input, error_call)
  document_event("explore_start", \() list(models = names(specs)))
  found <- list()
  made <- \() explore_result(found, specs[names(found)], hash, is.null(sink))
  is_over <- FALSE
  interrupted <- NULL # results of the model that Ctrl-C interrupted
  on.exit({
    if (!is_over && is.null(sink) && length(found) > 0) {
      keep_results(structure(made(), interrupted = interrupted))
    }
  })
  withCallingHandlers(
    for (id in names(specs)) {
      found[[id]] <- explore_model(specs[[id]], inputs[[id]], settings, error_call)
    },
    llamaherd_interrupt = \(cnd) interrupted <<- cnd$results
  )
  result <- made()
  document_event("explore_complete", \() list(models = names(specs)))
  is_over <- TRUE
  result
}

# ---- specifications --------------------------------------------------------------------

spec_keys <- c(
  "id",
  "model_path",
  "predictor",
  "n_gpu_layers",
  "n_ctx",
  "n_threads",
  "n_seq_max",
  "cache_dir",
  "use_mmap",
  "use_mlock",
  "check_memory",
  "force_redownload",
  "verify_integrity",
  "hf_token",
  "verbosity",
  "chat_template",
  "system_prompt",
  "instruction",
  "generation",
  "prompts",
  "loaded"
)

# Returns a list of complete specifications, named by their ids.
explore_specs <- function(models, defaults, prompts, error_call) {
  if (
    inherits(models, "llamaherd_model") ||
      any(c("model_path", "predictor") %in% names(models))
  ) {
    models <- list(models)
  }
  if (length(models) == 0 || !(is.list(models) || is.character(models))) {
    must <- "paths of models, or a list of specifications (none are given)"
    abort_argument("models", must, models, error_call)
  }
  given <- rlang::names2(models)
  specs <- lapply(seq_along(models), \(i) {
    spec <- one_spec(models[[i]], sprintf("models[[%d]]", i), error_call)
    spec$id <- spec$id %||% if (nzchar(given[[i]])) given[[i]] else sprintf("model_%d", i)
    check_string(spec$id, sprintf("models[[%d]]$id", i), error_call = error_call)
    for (name in names(defaults)) {
      if (is.null(spec[[name]])) spec[name] <- defaults[name]
    }
    spec$prompts <- spec$prompts %||% prompts
    if (is.null(spec$prompts)) {
      abort(
        c(
          "Model {.val {spec$id}} has no prompts.",
          i = "Give {.arg prompts}, such as a character vector, for all models or in its
               specification."
        ),
        "argument",
        error_call
      )
    }
    spec
  })
  ids <- vapply(specs, \(spec) spec$id, "")
  twice <- ids[duplicated(ids)]
  if (length(twice) > 0) {
    abort(
      c("Two models have the id {.val {twice[[1]]}}.", i = "Give each an {.field id}."),
      "argument",
      error_call
    )
  }
  stats::setNames(specs, ids)
}

one_spec <- function(x, arg, error_call) {
  if (inherits(x, "llamaherd_model")) {
    check_model(x, arg, error_call)
    return(list(loaded = x))
  }
  if (is.character(x) && length(x) == 1) {
    return(list(model_path = x))
  }
  if (!is.list(x) || !rlang::is_named(x)) {
    abort_argument(arg, "a path, a named list or a <llamaherd_model>", x, error_call)
  }
  unknown <- setdiff(names(x), spec_keys)
  if (length(unknown) > 0) {
    hint <- if ("model" %in% unknown) {
      "This field is called {.field model_path}, not {.field model}."
    }
    abort(
      c(
        "{.code {arg}} has an unknown field: {.field {unknown[[1]]}}.",
        i = hint,
        i = "Known fields are {.field {setdiff(spec_keys, 'loaded')}}."
      ),
      "argument",
      error_call
    )
  }
  if (is.null(x$model_path) && !is.function(x$predictor)) {
    abort(
      "{.code {arg}} needs {.field model_path}, or a function as {.field predictor}.",
      "argument",
      error_call
    )
  }
  x
}

# ---- running a model --------------------------------------------------------------------

# Returns the rows and the hashes of one model.
explore_model <- function(spec, input, settings, error_call) {
  rows <- data.frame(
    sample_id = input$sample_id,
    model_id = rep(spec$id, length(input$prompts)),
    label = rep(NA_character_, length(input$prompts))
  )
  rows$truth <- input$truth
  if (settings$keep_prompts) {
    rows$prompt <- input$prompts
  }
  answer <- answerer(spec, settings, error_call)
  on.exit(answer$end())
  n <- length(input$prompts)
  size <- if (is.null(settings$sink)) max(n, 1L) else max(settings$batch_size, 200L)
  for (start in seq(1L, max(n, 1L), by = size)) {
    these <- seq_len(min(size, n - start + 1L)) + start - 1L
    rows$label[these] <- answer$labels(input$prompts[these])
    if (!is.null(settings$sink)) {
      chunk <- rows[these, , drop = FALSE]
      keeping(chunk, settings$sink(chunk, spec$id))
    }
  }
  hashes <- list(input = lines_sha256(input$prompts), output = lines_sha256(rows$label))
  document_event("explore_model", \() {
    list(
      model_id = spec$id,
      n_prompts = n,
      engine = engine_of(spec, settings),
      input_hash = hashes$input,
      output_hash = hashes$output
    )
  })
  list(rows = rows, hashes = hashes)
}

# Returns two functions: one answers prompts, the other frees the model at the end.
answerer <- function(spec, settings, error_call) {
  if (is.function(spec$predictor)) {
    return(list(end = \() NULL, labels = \(prompts) {
      labels <- spec$predictor(prompts, NULL, spec)
      labels <- if (anyNA(labels)) as.character(labels) else label_values(labels)
      if (!is.character(labels) || length(labels) != length(prompts)) {
        abort(
          "The {.field predictor} of model {.val {spec$id}} must return a character vector of
           length {length(prompts)}, not {describe(labels)}.",
          "argument",
          error_call
        )
      }
      unname(labels)
    }))
  }
  context <- explore_context(spec, settings, error_call)
  list(
    end = \() close_explored(spec, context, settings),
    labels = \(prompts) explore_labels(context, prompts, spec, settings, error_call)
  )
}

# Chooses the value of "auto" for this model.
engine_of <- function(spec, settings) {
  if (is.function(spec$predictor)) {
    return("predictor")
  }
  if (settings$engine != "auto") {
    return(settings$engine)
  }
  is_single <- settings$batch_size == 1L || identical(as.integer(spec$n_seq_max), 1L)
  if (is_single) "single" else "parallel"
}

explore_context <- function(spec, settings, error_call) {
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
  if (settings$engine != "parallel" && engine_of(spec, settings) == "single") {
    sizes$n_seq_max <- 1L
  } else if (
    settings$engine == "parallel" && identical(as.integer(sizes$n_seq_max), 1L)
  ) {
    abort(
      c(
        "{.code engine = \"parallel\"} needs a context for several prompts at once, but
         {.field n_seq_max} of model {.val {spec$id}} is 1.",
        i = "Leave {.field n_seq_max} out."
      ),
      "argument",
      error_call
    )
  }
  do.call(context_create, c(list(model), sizes))
}

close_explored <- function(spec, context, settings) {
  close(context)
  if (is.null(spec$loaded) && !settings$reuse_models) {
    close(context$model)
  }
}

explore_labels <- function(context, prompts, spec, settings, error_call) {
  if (settings$progress) {
    cli::cli_inform("[{spec$id}] Answering {length(prompts)} prompt{?s} ...")
  }
  options <- utils::modifyList(
    list(max_tokens = 100L, temperature = 0, seed = 1234L, hash = FALSE),
    as.list(spec$generation)
  )
  if (spec$chat_template) {
    options$chat <- TRUE
    options$system <- spec$system_prompt
  } else if (!is.null(spec$system_prompt)) {
    prompts <- paste0(spec$system_prompt, "\n\n", prompts)
  }
  options$progress <- settings$progress
  options$clean <- settings$clean
  unname(plain(do.call(generate_parallel, c(list(context, prompts), options))))
}

# ---- the result ------------------------------------------------------------------------

explore_result <- function(found, specs, hash, keep) {
  hashes <- data.frame(
    model_id = names(specs),
    input_hash = vapply(found, \(x) x$hashes$input, "", USE.NAMES = FALSE),
    output_hash = vapply(found, \(x) x$hashes$output, "", USE.NAMES = FALSE)
  )
  result <- list(annotations = NULL, matrix = NULL)
  if (keep) {
    rows <- lapply(found, \(x) x$rows)
    columns <- unique(unlist(lapply(rows, names)))
    columns <- intersect(c("sample_id", "model_id", "label", "truth", "prompt"), columns)
    rows <- lapply(rows, \(x) {
      x[setdiff(columns, names(x))] <- rep(NA, nrow(x))
      x[columns]
    })
    result$annotations <- do.call(rbind, unname(rows))
    result$matrix <- explore_matrix(rows, names(specs))
  }
  if (hash) structure(result, hashes = hashes) else result
}

explore_matrix <- function(rows, ids) {
  samples <- unique(unlist(lapply(rows, \(x) value_text(x$sample_id))))
  first <- rows[[1]]$sample_id
  same <- identical(samples, value_text(first))
  matrix <- data.frame(sample_id = if (same) first else samples)
  for (i in seq_along(rows)) {
    at <- match(samples, value_text(rows[[i]]$sample_id))
    matrix[[ids[[i]]]] <- rows[[i]]$label[at]
    for (extra in intersect(c("truth", "prompt"), names(rows[[i]]))) {
      matrix[[paste0(extra, "_", ids[[i]])]] <- rows[[i]][[extra]][at]
    }
  }
  matrix
}
