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
  system_prompt <- check_string(system_prompt, null = TRUE)
  chat_template <- check_string(chat_template, null = TRUE)
  auto_format <- check_flag(auto_format)
  check_flag(hash)
  check_flag(progress)
  dots <- list(...)
  known <- setdiff(names(formals(generate_parallel)), c("context", "prompts", "..."))
  check_dots(dots, c(known, names(further_kinds)))
  model_path <- check_string(model_path, null = TRUE) %||%
    default_model(verbosity)
  context <- quick_context(model_path, n_gpu_layers, n_ctx, n_threads, verbosity)
  answers <- function(chat) {
    rlang::exec(
      "generate_parallel",
      context,
      prompt,
      max_tokens = max_tokens,
      top_k = top_k,
      top_p = top_p,
      temperature = temperature,
      repeat_last_n = repeat_last_n,
      penalty_repeat = penalty_repeat,
      seed = seed,
      progress = progress && length(prompt) > 1,
      verbosity = min(verbosity, 0L),
      clean = clean,
      hash = hash,
      !!!c(dots, chat[!names(chat) %in% names(dots)])
    )
  }
  chat <- list(
    chat = TRUE,
    system = system_prompt,
    template = chat_template,
    merge_system = TRUE
  )
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
    hint <- if (is.data.frame(prompt)) "Take one of its columns, such as data$text."
    abort_argument("prompt", "one question or more", prompt, hint = hint)
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
