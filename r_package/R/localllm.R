#' Functions of localLLM
#'
#' Scripts for the package localLLM run with these functions; `vignette("from-localLLM")` lists what
#' differs. In new scripts use the functions after the colons:
#'
#' * `quick_llama()`: [generate_parallel()] with a model that you load once.
#' * `explore()`, `annotation_sink_csv()`: [annotate_texts()], whose `journal` keeps finished rows,
#'   and [robustness()] for several models.
#' * `compute_confusion_matrices()`, `intercoder_reliability()`, `validate_models()`: [validate()]
#'   and [agreement()], which also give intervals.
#' * `smart_chat_template()`, `apply_gemma_chat_template()`: `generate_parallel(chat = TRUE)`.
#' * `backend_init()`, `backend_free()`, `lib_is_installed()`, `get_lib_path()`, `tokenize_test()`:
#'   [llamaherd_available()]; [model_load()] starts the backend itself.
#'
#' @section Models of `explore()`:
#' `models` is the path of a model (or another name that [model_load()] accepts), a named vector of
#' paths, or a list of specifications (named lists) and loaded `llamaherd_model`s. A specification
#' has either `model_path` or `predictor`, a function of `prompts`, `data` (NULL) and the
#' specification that returns one label per prompt. It may also have `id`, `prompts`,
#' `chat_template`, `system_prompt`, `instruction`, arguments of [model_load()] and
#' [context_create()], and `generation`, a list of arguments of [generate_parallel()].
#'
#' @section Prompts of `explore()`:
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
#' @section Default model of `quick_llama()`:
#' Without `model_path`, the model named by the option `llamaherd.model` is used, or else the
#' largest chat model in the cache, as judged by its name. If there is no such model, an interactive
#' session offers to download `hf:unsloth/Llama-3.2-3B-Instruct-GGUF:Q4_K_M` (2 GB); otherwise an
#' error explains what to do. A message names the model that is used.
#'
#' @param models Models to run; see below.
#' @param instruction Text that is stored as `instruction` in each specification, for functions that
#'   receive the specification.
#' @param prompts Prompts; see below.
#' @param engine `"parallel"` runs many prompts at a time, `"single"` runs one at a time; `"auto"`
#'   uses `"parallel"` unless `n_seq_max` of a specification or `batch_size` is 1.
#' @param batch_size With a `sink`: number of prompts that are answered together before the sink is
#'   called; values below 200 mean 200. Without a sink all prompts are answered together.
#' @param reuse_models TRUE keeps models loaded for later calls in this session.
#' @param sink Function with the arguments `chunk`, a data frame like `annotations`, and `model_id`,
#'   such as the return value of `annotation_sink_csv()`. The sink is called with rows as soon as
#'   they are finished; `annotations` and `matrix` of the result are then NULL.
#' @param progress TRUE shows progress.
#' @param clean TRUE removes surrounding white space and chat template markers from answers.
#' @param keep_prompts TRUE adds the column `prompt`.
#' @param hash TRUE adds the attribute `hashes`.
#' @param chat_template For `explore()`, TRUE formats prompts as user messages for a chat model, and
#'   FALSE continues them as plain text. For `quick_llama()`, text of a Jinja template; NULL uses
#'   the template of the model.
#' @param system_prompt Text of a system message before each prompt. NULL uses none.
#' @param prompt A character vector of one or more questions.
#' @param model_path Model, in the forms that [model_load()] accepts. NULL uses the default model.
#' @param n_threads,n_ctx See [context_create()].
#' @param n_gpu_layers See [model_load()].
#' @param verbosity Negative values show errors only.
#' @param max_tokens,top_k,top_p,temperature,repeat_last_n,penalty_repeat,seed See
#'   [generate_parallel()].
#' @param auto_format TRUE formats prompts for a chat model; FALSE continues them as plain text.
#' @param ... Further arguments of [generate_parallel()].
#' @param path Path of the CSV file; `~` is expanded.
#' @param append TRUE adds rows to an existing file, without a second header; FALSE overwrites it.
#' @param annotations A data frame with one row per text and model, or the return value of
#'   `explore()`.
#' @param gold Human codes: a vector with one code per text, in the order of the texts' first
#'   occurrence or named by text; or the name of a column. NULL uses the column `truth_col` if it
#'   exists.
#' @param pairwise TRUE compares models with each other.
#' @param label_levels All labels, in order. NULL uses the labels in order of occurrence.
#' @param sample_col,model_col,label_col,truth_col Names of the columns of text ids, model ids,
#'   labels and human codes, quoted or unquoted.
#' @param method Reliability coefficients: `"cohen"`, `"krippendorff"`, or `"auto"` for both.
#' @param include_confusion,include_reliability TRUE computes confusion matrices, or reliability
#'   coefficients.
#' @param model A `llamaherd_model` from [model_load()].
#' @param messages A list of messages `list(role = "user", content = "...")`, or a data frame
#'   with the columns `role` and `content`.
#' @param template Text of a Jinja template. NULL uses the template of the model.
#' @param add_assistant TRUE appends the beginning of the assistant's turn.
#' @returns `quick_llama()`: a character vector of the length of `prompt`, with the names of
#'   `prompt`, or `prompt_1`, `prompt_2` and so on; NA where a prompt failed. With `hash = TRUE` it
#'   is a `llamaherd_result`, see [generate_parallel()].
#'
#'   `explore()`: a list with `annotations`, a data frame with the columns `sample_id`, `model_id`,
#'   `label` and, if they exist, `truth` and `prompt`, the rows of the models one after the other,
#'   NA where a prompt failed; and `matrix`, a data frame with one row per sample and one column per
#'   model, named by the models, and columns with the prefixes `truth_` and `prompt_`. The attribute
#'   `hashes` has `model_id`, `input_hash` and `output_hash`: the SHA-256 of the model's prompts and
#'   labels, each followed by a newline, as `sha256sum` computes it for a file with these lines.
#'
#'   `annotation_sink_csv()`: a function of `chunk` and `model_id` that writes the rows of `chunk`
#'   to the file, as UTF-8, so that a crash loses no finished row.
#'
#'   `compute_confusion_matrices()`: a list with `vs_gold`, for each model, by name, a table with
#'   the model's labels as rows and human codes as columns, NULL without human codes; and
#'   `pairwise`, for each pair of models, named `"a vs b"`, a table with the labels of the first
#'   model as rows, NULL with one model.
#'
#'   `intercoder_reliability()`: a list with `cohen`, a data frame with one row per pair of models:
#'   `model_a`, `model_b`, `kappa` (NA if expected agreement is 1), `observed` and `expected`; and
#'   `krippendorff`, a list with `alpha` (the nominal coefficient as `irr::kripp.alpha()` computes
#'   it), `alpha_exact` (the coefficient by Krippendorff's definition, which differs with three or
#'   more models and no missing labels), `per_item` (for each text, the share of pairs of models
#'   that agree) and `category_proportions`.
#'
#'   `validate_models()`: a `llamaherd_comparison`, which prints as a page: a list with `confusion`
#'   and `reliability`, the return values of these two functions.
#'
#'   `smart_chat_template()`, `apply_gemma_chat_template()`: a string. The former works like
#'   [apply_chat_template()], but uses Gemma's format for Gemma models whose file has no template,
#'   or a template that refuses system messages. In Gemma's format the system message is placed
#'   before the first user message.
#'
#'   `tokenize_test()`: the tokens of the text `"H"`. `lib_is_installed()`: TRUE or FALSE.
#'   `get_lib_path()`: the path of llama.cpp's library. `backend_init()`, `backend_free()`: NULL.
#' @name localLLM
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
#' validate_models(result, gold = c("positive", "negative", "positive"))
NULL

# ---- quick_llama() ---------------------------------------------------------------------

#' @rdname localLLM
#' @export
quick_llama <- function(
  prompt,
  model_path = NULL,
  n_threads = NULL,
  n_gpu_layers = "auto",
  n_ctx = "auto",
  verbosity = 1L,
  max_tokens = 100L,
  top_k = 40L,
  top_p = 1.0,
  temperature = 0.0,
  repeat_last_n = 64L,
  penalty_repeat = 1.0,
  system_prompt = "You are a helpful assistant.",
  auto_format = TRUE,
  chat_template = NULL,
  seed = 1234L,
  progress = interactive(),
  clean = FALSE,
  hash = TRUE,
  ...
) {
  check_questions(prompt)
  verbosity <- check_whole(verbosity)
  auto_format <- check_flag(auto_format)
  dots <- list(...)
  known <- setdiff(names(formals(generate_parallel)), c("context", "prompts", "..."))
  check_dots(dots, c(known, names(further_kinds)))
  chat <- list(
    chat = TRUE,
    system = check_string(system_prompt, null = TRUE),
    template = check_string(chat_template, null = TRUE),
    merge_system = TRUE
  )
  settings <- list(
    max_tokens = max_tokens,
    top_k = top_k,
    top_p = top_p,
    temperature = temperature,
    repeat_last_n = repeat_last_n,
    penalty_repeat = penalty_repeat,
    seed = seed,
    progress = check_flag(progress) && length(prompt) > 1,
    verbosity = min(verbosity, 0L),
    clean = clean,
    hash = check_flag(hash)
  )
  model_path <- check_string(model_path, null = TRUE) %||% default_model(verbosity)
  context <- quick_context(model_path, n_gpu_layers, n_ctx, n_threads, verbosity)
  answers <- \(chat) {
    more <- c(dots, chat[!names(chat) %in% names(dots)])
    rlang::exec("generate_parallel", context, prompt, !!!settings, !!!more)
  }
  needs_chat <- !is.null(chat_template) || any(names(dots) %in% options_of_chat)
  result <- rlang::try_fetch(
    answers(if (auto_format) chat),
    llamaherd_error_model = \(cnd) {
      if (!auto_format || needs_chat) {
        return(rlang::zap())
      }
      if (verbosity >= 0) {
        cli::cli_inform(
          "{.file {base_name(context$model$path)}} has no chat template: prompts are continued as
           plain text."
        )
      }
      answers(NULL)
    }
  )
  keeping(result, {
    document_event(
      "quick_llama",
      model = log_path(context$model$path),
      n_prompts = length(prompt),
      input_hash = lines_sha256(prompt),
      output_hash = lines_sha256(plain(result))
    )
  })
  names(result) <- names(prompt) %||%
    if (length(prompt) > 1) sprintf("prompt_%d", seq_along(prompt))
  if (hash) result else plain(result)
}

#' @rdname localLLM
#' @export
quick_llama_reset <- function() {
  close_quick()
  cli::cli_inform("quick_llama() has released its model and context.")
  invisible()
}

check_questions <- function(prompt) {
  check_given(prompt)
  if (!is.character(prompt) || length(prompt) == 0) {
    abort_argument("prompt", "one question or more", prompt, hint = prompts_hint(prompt))
  }
  empty <- which(!is.na(prompt) & !nzchar(prompt))
  if (length(empty) > 0) {
    problem <- "{.arg prompt} must not be empty, but {.code prompt[[{empty[[1]]}]]} is."
    abort(problem)
  }
}

quick_default <- "hf:unsloth/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"

default_model <- function(verbosity, models = suppressMessages(list_cached_models())) {
  named <- getOption("llamaherd.model")
  if (!is.null(named)) {
    return(check_string(named, "getOption(\"llamaherd.model\")"))
  }
  chat <- grepl("instruct|chat|[-_.]it[-_.]", models$name, ignore.case = TRUE)
  models <- models[chat & !grepl("llamaherd[.]gguf$", models$name), ]
  if (nrow(models) > 0) {
    model <- models[which.max(models$size_bytes), ]
    if (verbosity >= 0 && is.null(the$quick)) {
      cli::cli_inform("Using {.file {model$name}}, the largest chat model in the cache.")
    }
    return(model$path)
  }
  question <- sprintf("Download %s (2 GB)? [y/N] ", quick_default)
  if (interactive() && tolower(trimws(readline(question))) %in% c("y", "yes")) {
    return(quick_default)
  }
  abort(
    c(
      "There is no chat model in the cache, and no {.arg model_path} is given.",
      i = "{.code quick_llama(prompt, model_path = \"{quick_default}\")} downloads one of 2 GB.",
      i = "{.code options(llamaherd.model = \"path/to/model.gguf\")} names one of yours."
    ),
    "model"
  )
}

# Returns the context of the last call if it had the same model and sizes.
quick_context <- function(model_path, n_gpu_layers, n_ctx, n_threads, verbosity) {
  key <- list(model_path, n_gpu_layers, n_ctx, n_threads)
  if (!identical(the$quick$key, key) || !is.null(object_problem(the$quick$context))) {
    close_quick()
    model <- model_load(model_path, n_gpu_layers = n_gpu_layers, verbosity = verbosity)
    context <- context_create(model, n_ctx = n_ctx, n_threads = n_threads)
    the$quick <- list(key = key, context = context)
  }
  the$quick$context
}

close_quick <- function() {
  context <- the$quick$context
  the$quick <- NULL
  if (!is.null(context)) {
    close(context)
    close(context$model)
  }
}

# ---- templates, tokens, backend ----------------------------------------------------------

#' @rdname localLLM
#' @export
smart_chat_template <- function(
  model,
  messages,
  template = NULL,
  add_assistant = TRUE
) {
  check_given(messages)
  check_model(model)
  rlang::try_fetch(
    apply_chat_template(model, messages, template, add_assistant),
    llamaherd_error_model = function(cnd) {
      kind <- model_metadata(model)["general.architecture"]
      if (!is.null(template) || !grepl("^gemma", kind)) {
        rlang::cnd_signal(cnd)
      }
      apply_gemma_chat_template(messages, add_assistant)
    }
  )
}

#' @rdname localLLM
#' @export
apply_gemma_chat_template <- function(messages, add_assistant = TRUE) {
  messages <- check_messages(messages)
  add_assistant <- check_flag(add_assistant)
  turn <- \(role, text) paste0("<start_of_turn>", role, "\n", text, "<end_of_turn>\n")
  system <- ""
  turns <- character()
  for (message in messages) {
    text <- trimws(message$content)
    if (message$role == "system") {
      system <- paste0(system, text, "\n\n")
    } else if (message$role == "user") {
      turns <- c(turns, turn("user", paste0(system, text)))
      system <- ""
    } else {
      role <- if (message$role == "assistant") "model" else message$role
      turns <- c(turns, turn(role, text))
    }
  }
  if (nzchar(system)) {
    turns <- c(turns, turn("user", trimws(system)))
  }
  paste0(paste(turns, collapse = ""), if (add_assistant) "<start_of_turn>model\n")
}

#' @rdname localLLM
#' @export
tokenize_test <- function(model) {
  check_model(model)
  tokenize(model, "H")
}

#' @rdname localLLM
#' @export
backend_init <- function() {
  py_call("backend_init")
  invisible()
}

#' @rdname localLLM
#' @export
backend_free <- function() {
  if (!is.null(the$module)) {
    py_call("backend_free")
  }
  invisible()
}

#' @rdname localLLM
#' @export
lib_is_installed <- function() llamaherd_available()

#' @rdname localLLM
#' @export
get_lib_path <- function() r_path(py_call("lib_path"))

# ---- explore() ---------------------------------------------------------------------------

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
    sink = sink,
    progress = check_flag(progress),
    clean = check_flag(clean)
  )
  if (!is.null(sink) && !is.function(sink)) {
    abort_argument("sink", "NULL or a function", sink)
  }
  defaults <- list(
    prompts = prompts,
    instruction = check_string(instruction, null = TRUE),
    chat_template = check_flag(chat_template),
    system_prompt = check_string(system_prompt, null = TRUE)
  )
  specs <- explore_specs(models, defaults)
  frames <- lapply(specs, explore_frame)
  has_truth <- !all(vapply(frames, \(frame) all(is.na(frame$truth)), NA))
  extras <- c("truth", "prompt")[c(has_truth, check_flag(keep_prompts))]
  settings$columns <- c("sample_id", "model_id", "label", extras)
  check_flag(hash)
  document_event("explore_start", models = names(specs))
  done <- list()
  interrupted <- NULL # results of the model that Ctrl-C interrupted
  result <- \() explore_result(done, settings$columns, hash, is.null(sink))
  withCallingHandlers(
    keeping(
      if (is.null(sink) && length(done) > 0) {
        structure(result(), interrupted = interrupted)
      },
      for (id in names(specs)) {
        done[[id]] <- explore_model(specs[[id]], frames[[id]], settings)
      }
    ),
    llamaherd_interrupt = \(cnd) interrupted <<- cnd$results
  )
  document_event("explore_complete", models = names(specs))
  result()
}

spec_fields <- c(
  c("id", "model_path", "loaded", "predictor", "n_gpu_layers", "n_ctx", "n_threads"),
  c("n_seq_max", "cache_dir", "use_mmap", "use_mlock", "check_memory", "hf_token"),
  c("force_redownload", "verify_integrity", "verbosity", "chat_template"),
  c("system_prompt", "instruction", "generation", "prompts")
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
  ids <- rlang::names2(models)
  ids <- ifelse(nzchar(ids), ids, sprintf("model_%d", seq_along(models)))
  args <- sprintf("models[[%d]]", seq_along(models))
  specs <- unname(Map(
    \(model, id, arg) model_spec(model, id, arg, defaults),
    models,
    ids,
    args
  ))
  ids <- vapply(specs, \(spec) spec$id, "")
  if (anyDuplicated(ids)) {
    problem <- "Two models have the id {.val {ids[duplicated(ids)][[1]]}}."
    abort(c(problem, i = "Give each an {.field id}."))
  }
  rlang::set_names(specs, ids)
}

model_spec <- function(model, id, arg, defaults) {
  spec <- if (inherits(model, "llamaherd_model")) {
    check_model(model, arg)
    list(loaded = model)
  } else if (rlang::is_string(model)) {
    list(model_path = model)
  } else {
    model
  }
  if (!is.list(spec) || !rlang::is_named(spec)) {
    abort_argument(arg, "a path, a named list or a <llamaherd_model>", model)
  }
  unknown <- setdiff(names(spec), spec_fields)
  if (length(unknown) > 0) {
    abort(c(
      "{.code {arg}} has an unknown field: {.field {unknown[[1]]}}.",
      i = "Known fields are {.field {spec_fields}}."
    ))
  }
  if (is.null(spec$loaded %||% spec$model_path) && !is.function(spec$predictor)) {
    abort("{.code {arg}} needs {.field model_path}, or a function as {.field predictor}.")
  }
  spec <- Filter(Negate(is.null), spec)
  spec <- c(spec, defaults[setdiff(names(defaults), names(spec))])
  spec$id <- check_string(spec$id %||% id, paste0(arg, "$id"))
  if (is.null(spec$prompts)) {
    abort(c(
      "Model {.val {spec$id}} has no prompts.",
      i = "Give {.arg prompts}, for all models or in its specification."
    ))
  }
  spec
}

# Returns the rows of one model, whose labels are NA.
explore_frame <- function(spec) {
  x <- if (is.function(spec$prompts)) spec$prompts(spec) else spec$prompts
  fields <- if (is.list(x)) as.list(x) else list(prompts = x)
  is_template <- !any(c("prompts", "prompt") %in% names(fields))
  prompts <- if (is_template) {
    template_prompts(fields)
  } else {
    fields[["prompts"]] %||% fields[["prompt"]]
  }
  prompts <- if (is.factor(prompts)) as.character(prompts) else prompts
  if (!is.character(prompts)) {
    must <- "a character vector, a data frame with a column prompt, a template or a function"
    abort_argument("prompts", must, x)
  }
  n <- length(prompts)
  for (name in c("sample_id", "truth")) {
    field <- fields[[name]]
    if (!is.null(field) && length(field) != n) {
      abort("{.field {name}} must be as long as the prompts ({n}), not {length(field)}.")
    }
  }
  data.frame(
    sample_id = unname(fields$sample_id %||% seq_len(n)),
    model_id = rep(spec$id, n),
    label = rep(NA_character_, n),
    truth = value_text(fields$truth %||% rep(NA, n)),
    prompt = unname(prompts)
  )
}

# Returns the prompts of a template: a section of each field, one under the other.
template_prompts <- function(fields) {
  if (!rlang::is_named(fields)) {
    abort_argument("prompts", "a template with a name for each section", fields)
  }
  sections <- fields[setdiff(names(fields), c("sample_id", "truth", "format"))]
  vectors <- Filter(is.atomic, sections)
  n <- if (is.null(fields$sample_id)) {
    max(lengths(vectors), 1L)
  } else {
    length(fields$sample_id)
  }
  texts <- Map(
    \(title, value) {
      paste0("## ", title, "\n", rep_len(template_section(value, n, title), n))
    },
    names(sections),
    sections
  )
  if (length(texts) > 0) do.call(paste, c(unname(texts), sep = "\n\n")) else character()
}

# Returns the texts of a section: one text per sample, or one text for all samples.
template_section <- function(value, n, title) {
  if (is.data.frame(value)) {
    value <- lapply(seq_len(nrow(value)), \(row) as.list(value[row, , drop = FALSE]))
  }
  if (!is.list(value)) {
    value <- enc2utf8(value_text(value))
    return(if (length(value) %in% c(1L, n)) value else bullets(value))
  }
  # Unnamed lists are blocks: those of "Examples" are "Example 1", "Example 2" and so on.
  is_block <- is.null(names(value)) && all(vapply(value, rlang::is_named, NA))
  titles <- rlang::names2(value)
  if (is_block) {
    titles <- paste(sub("s$", "", title), seq_along(value))
    value <- lapply(value, \(block) {
      cells <- vapply(block, \(cell) paste(value_text(cell), collapse = ", "), "")
      bullets(paste0(names(block), ": ", cells))
    })
  }
  texts <- Map(template_section, value, 0L, titles)
  paste0("### ", titles, "\n", unlist(texts), collapse = "\n\n")
}

bullets <- \(lines) paste0("- ", lines, collapse = "\n")

# Returns the rows of one model with its labels.
explore_model <- function(spec, frame, settings) {
  is_single <- settings$engine == "single" ||
    settings$engine == "auto" &&
      (settings$batch_size == 1L || identical(as.integer(spec$n_seq_max), 1L))
  engine <- if (is_single) "single" else "parallel"
  if (is.function(spec$predictor)) {
    engine <- "predictor"
    answer <- \(prompts) predicted_labels(spec, prompts)
  } else {
    context <- explore_context(spec, is_single, settings)
    on.exit({
      close(context)
      if (is.null(spec$loaded) && !settings$reuse_models) close(context$model)
    })
    answer <- \(prompts) explore_answers(spec, context, prompts, settings)
  }
  n <- nrow(frame)
  size <- if (is.null(settings$sink)) max(n, 1L) else max(settings$batch_size, 200L)
  for (rows in split(seq_len(n), (seq_len(n) - 1L) %/% size)) {
    frame$label[rows] <- answer(frame$prompt[rows])
    if (!is.null(settings$sink)) {
      chunk <- frame[rows, settings$columns, drop = FALSE]
      keeping(chunk, settings$sink(chunk, spec$id))
    }
  }
  document_event(
    "explore_model",
    n_prompts = n,
    engine = engine,
    explore_hashes(frame, spec$id)
  )
  frame
}

explore_hashes <- function(frame, id) {
  list(
    model_id = id,
    input_hash = lines_sha256(frame$prompt),
    output_hash = lines_sha256(frame$label)
  )
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

explore_answers <- function(spec, context, prompts, settings) {
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

# `frames` are the rows of models, by their ids.
explore_result <- function(frames, columns, hash, has_rows) {
  result <- list(annotations = NULL, matrix = NULL)
  if (has_rows) {
    result$annotations <- do.call(rbind, unname(lapply(frames, `[`, columns)))
    samples <- unique(result$annotations$sample_id)
    result$matrix <- data.frame(sample_id = samples)
    for (id in names(frames)) {
      rows <- frames[[id]][match(samples, frames[[id]]$sample_id), ]
      result$matrix[[id]] <- rows$label
      for (extra in columns[-(1:3)]) {
        result$matrix[[paste0(extra, "_", id)]] <- rows[[extra]]
      }
    }
  }
  hashes <- unname(Map(
    \(frame, id) data.frame(explore_hashes(frame, id)),
    frames,
    names(frames)
  ))
  if (hash) structure(result, hashes = do.call(rbind, hashes)) else result
}

#' @rdname localLLM
#' @export
annotation_sink_csv <- function(path, append = FALSE) {
  path <- expand_path(check_string(path))
  append <- check_flag(append)
  path <- full_path(path) # the working directory may change before the next chunk
  has_header <- append && file_exists(path) && file.size(native_path(path)) > 0
  function(chunk, model_id) {
    if (!is.data.frame(chunk)) {
      abort_argument("chunk", "a data frame", chunk)
    }
    rows <- do.call(paste, c(unname(lapply(chunk, csv_cells)), sep = ","))
    header <- if (!has_header) paste(csv_cells(names(chunk)), collapse = ",")
    write <- if (append) "append_lines" else "replace_lines"
    py_call(write, path, as_py_list(c(header, if (nrow(chunk) > 0) rows)))
    append <<- has_header <<- TRUE
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

# ---- labels of several models ------------------------------------------------------------

#' @rdname localLLM
#' @export
compute_confusion_matrices <- function(
  annotations,
  gold = NULL,
  pairwise = TRUE,
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label",
  truth_col = "truth"
) {
  check_given(annotations)
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  compare_models(annotations, quos, pairwise, label_levels, NULL)$confusion
}

#' @rdname localLLM
#' @export
intercoder_reliability <- function(
  annotations,
  method = c("auto", "cohen", "krippendorff"),
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label"
) {
  check_given(annotations)
  quos <- rlang::enquos(
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col
  )
  method <- py_value(method)
  compare_models(annotations, quos, NULL, label_levels, method)$reliability
}

#' @rdname localLLM
#' @export
validate_models <- function(
  annotations,
  gold = NULL,
  pairwise = TRUE,
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label",
  truth_col = "truth",
  method = c("auto", "cohen", "krippendorff"),
  include_confusion = TRUE,
  include_reliability = TRUE
) {
  check_given(annotations)
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  method <- py_value(method)
  pairwise <- if (check_flag(include_confusion)) pairwise
  method <- if (check_flag(include_reliability)) method
  if (is.null(pairwise) && is.null(method)) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE."
    )
  }
  result <- compare_models(annotations, quos, pairwise, label_levels, method)
  document_event("validate", models = names(result$confusion$vs_gold))
  result
}

# Computes confusion matrices unless `pairwise` is NULL, and reliability unless `method` is NULL.
# `quos` are the arguments that name columns, quoted or not; `gold` may be codes.
compare_models <- function(annotations, quos, pairwise, label_levels, method) {
  frame <- annotations
  if (!is.data.frame(frame) && is.list(frame)) {
    frame <- frame$annotations # the return value of explore()
  }
  columns <- lapply(rlang::set_names(names(quos)), \(arg) {
    is_object <- if (arg == "gold") is_codes else \(x) FALSE
    column_or_object(quos[[arg]], frame, arg, is_object = is_object)
  })
  if (!is.data.frame(frame)) {
    abort_argument("annotations", "a data frame or the result of explore()", frame)
  }
  gold <- columns$gold
  columns$gold <- NULL
  columns <- Map(check_string, columns, names(columns))
  for (name in intersect(unlist(columns[c("sample_col", "model_col")]), names(frame))) {
    frame[[name]] <- value_text(frame[[name]])
  }
  is_column <- rlang::is_string(gold) && gold %in% names(frame)
  if (!is.null(gold) && !is_column) {
    ids <- names(gold)
    gold <- rlang::set_names(as_codes(gold), if (!is.null(ids)) as_utf8(ids))
  }
  used <- intersect(c(unlist(columns), if (is_column) gold), names(frame))
  columns$label_levels <- check_levels(label_levels, "label_levels")
  arguments <- list(
    annotations = frame_for_python(frame, used),
    of_confusion = if (!is.null(pairwise)) {
      c(columns, list(gold = gold, pairwise = py_value(pairwise)))
    },
    of_reliability = if (!is.null(method)) {
      c(columns[names(columns) != "truth_col"], list(method = method))
    }
  )
  call_python("compare_models", arguments)
}
