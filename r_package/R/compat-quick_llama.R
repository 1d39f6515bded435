#' Answer prompts without preparation
#'
#' Loads a model, creates a context and answers the prompts. The model and the context stay in
#' memory for the next call. For many prompts, schemas, labels and other options see
#' [generate_parallel()].
#'
#' @section Default model:
#' Without `model_path`, the model named by the option `llamaherd.model` is used, or else the
#' largest chat model in the cache, as judged by its name. If there is no such model, an interactive
#' session offers to download `hf:unsloth/Llama-3.2-3B-Instruct-GGUF:Q4_K_M` (2 GB); otherwise an
#' error explains what to do. A message names the model that is used.
#'
#' @param prompt A character vector of one or more questions.
#' @param model_path Model, in the forms that [model_load()] accepts. NULL uses the default model;
#'   see below.
#' @param n_threads Number of threads. NULL uses the number of physical cores.
#' @param n_gpu_layers Number of layers in GPU memory, see [model_load()].
#' @param n_ctx Number of tokens that the context can hold, see [context_create()].
#' @param verbosity Negative values show errors only.
#' @param max_tokens,top_k,top_p,temperature,repeat_last_n,penalty_repeat,seed,progress,clean See
#'   [generate_parallel()].
#' @param system_prompt Text of a system message. NULL uses none.
#' @param auto_format TRUE formats prompts for a chat model; FALSE continues them as plain text.
#' @param chat_template Text of a Jinja template. NULL uses the template of the model.
#' @param hash TRUE adds the attribute `hashes`, see [generate_parallel()].
#' @param ... Further arguments of [generate_parallel()].
#' @returns A character vector of the length of `prompt`, with the names of `prompt`. If there are
#'   several prompts without names, the names are `prompt_1`, `prompt_2` and so on. NA where a
#'   prompt failed. With `hash = TRUE` the vector is a `llamaherd_result`, see
#'   [generate_parallel()]; without `hash` it is a plain vector.
#' @seealso [generate_parallel()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' quick_llama("Name a river.", model_path = llamaherd_example_model(), max_tokens = 10)
#' quick_llama_reset()
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
  error_call <- rlang::current_env()
  check_questions(prompt, error_call)
  verbosity <- check_whole(verbosity)
  system_prompt <- check_string(system_prompt, null = TRUE)
  chat_template <- check_string(chat_template, null = TRUE)
  auto_format <- check_flag(auto_format)
  check_flag(hash)
  check_flag(progress)
  dots <- list(...)
  known <- setdiff(names(formals(generate_parallel)), c("context", "prompts", "..."))
  check_dots(dots, c(known, names(further_kinds)), error_call)
  model_path <- check_string(model_path, null = TRUE) %||%
    default_model(verbosity, error_call)
  context <- quick_context(model_path, n_gpu_layers, n_ctx, n_threads, verbosity)
  if (auto_format && any(names(dots) %in% c(options_of_chat, "schema"))) {
    # The call renders the chat itself, because it needs the position at which a thought begins.
    auto_format <- FALSE
    of_chat <- list(
      chat = TRUE,
      system = system_prompt,
      template = chat_template,
      merge_system = TRUE
    )
    dots <- c(dots, of_chat[!names(of_chat) %in% names(dots)])
  }
  prompts <- if (auto_format) {
    chat_prompts(context$model, prompt, system_prompt, chat_template, verbosity)
  } else {
    prompt
  }
  result <- rlang::exec(
    "generate_parallel",
    context,
    prompts,
    max_tokens = max_tokens,
    top_k = top_k,
    top_p = top_p,
    temperature = temperature,
    repeat_last_n = repeat_last_n,
    penalty_repeat = penalty_repeat,
    seed = seed,
    progress = progress && length(prompts) > 1,
    verbosity = min(verbosity, 0L),
    clean = clean,
    hash = hash,
    !!!dots
  )
  keeping(result, {
    document_event("quick_llama", \() {
      list(
        model = log_path(context$model$path),
        n_prompts = length(prompt),
        input_hash = lines_sha256(prompt),
        output_hash = lines_sha256(plain(result))
      )
    })
  })
  names(result) <- names(prompt) %||%
    if (length(prompt) > 1) sprintf("prompt_%d", seq_along(prompt))
  if (hash) result else plain(result)
}

#' @rdname quick_llama
#' @export
quick_llama_reset <- function() {
  if (!is.null(the$quick)) {
    close(the$quick$context)
    close(the$quick$context$model)
    the$quick <- NULL
  }
  cli::cli_inform("quick_llama() has released its model and context.")
  invisible()
}

check_questions <- function(prompt, error_call) {
  check_given(prompt, error_call = error_call)
  if (!is.character(prompt) || length(prompt) == 0) {
    hint <- if (is.data.frame(prompt)) "Take one of its columns, such as data$text."
    abort_argument("prompt", "one question or more", prompt, error_call, hint)
  }
  empty <- which(!is.na(prompt) & !nzchar(prompt))
  if (length(empty) > 0) {
    abort(
      "{.arg prompt} must not be empty, but {.code prompt[[{empty[[1]]}]]} is.",
      "argument",
      error_call
    )
  }
}

# ---- choosing the model -----------------------------------------------------------------------

quick_default <- "hf:unsloth/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"

default_model <- function(
  verbosity,
  error_call,
  models = suppressMessages(list_cached_models())
) {
  named <- getOption("llamaherd.model")
  if (!is.null(named)) {
    return(check_string(named, "getOption(\"llamaherd.model\")", error_call = error_call))
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
  if (interactive() && says_yes(sprintf("Download %s (2 GB)?", quick_default))) {
    return(quick_default)
  }
  abort(
    c(
      "There is no chat model in the cache, and no {.arg model_path} is given.",
      i = "{.code quick_llama(prompt, model_path = \"{quick_default}\")} downloads one of 2 GB.",
      i = "{.code options(llamaherd.model = \"path/to/model.gguf\")} names one of yours."
    ),
    "model",
    error_call
  )
}

says_yes <- function(question) {
  tolower(trimws(readline(paste(question, "[y/N] ")))) %in% c("y", "yes")
}

# Returns the context of the last call if it had the same model and sizes.
quick_context <- function(model_path, n_gpu_layers, n_ctx, n_threads, verbosity) {
  key <- list(model_path, n_gpu_layers, n_ctx, n_threads)
  quick <- the$quick
  if (!identical(quick$key, key) || !is.null(object_problem(quick$context))) {
    if (!is.null(quick)) {
      the$quick <- NULL
      close(quick$context)
      close(quick$context$model)
    }
    model <- model_load(model_path, n_gpu_layers = n_gpu_layers, verbosity = verbosity)
    context <- context_create(model, n_ctx = n_ctx, n_threads = n_threads)
    the$quick <- list(key = key, context = context)
  }
  the$quick$context
}

# Formats prompts in the form on which the model was trained. If the template does not support
# system messages, the system text is put before the user's message; a model without a template gets
# the plain prompts.
chat_prompts <- function(model, prompt, system, template, verbosity) {
  apply <- function(prompt, system) {
    rlang::try_fetch(
      apply_chat_template(model, prompt, template = template, system = system),
      llamaherd_error_model = \(cnd) NULL
    )
  }
  joined <- ifelse(is.na(prompt), NA, paste0(system, "\n\n", prompt))
  prompts <- apply(prompt, system) %||% if (!is.null(system)) apply(joined, NULL)
  if (is.null(prompts)) {
    if (!is.null(template)) {
      return(apply_chat_template(model, prompt, template = template))
    }
    if (verbosity >= 0) {
      cli::cli_inform(
        "{.file {base_name(model$path)}} has no chat template: prompts are continued as plain text."
      )
    }
    return(prompt)
  }
  prompts
}
