#' llamaherd: many prompts at once on a local language model
#'
#' @description
#' Answers a vector of prompts with a language model that runs on your own machine:
#' nothing leaves it, and there is no server to run.
#'
#' @section Ten lines:
#'
#'     library(llamaherd)
#'     hardware_profile()  # which models this computer can run
#'     model <- model_load("hf:unsloth/Llama-3.2-3B-Instruct-GGUF")
#'     context <- context_create(model)
#'     texts <- c("I love it.", "It broke on the second day.", "It is blue.")
#'     prompts <- paste0("Review: ", texts, "\nSentiment:")
#'     labels <- c("positive", "negative", "neutral")
#'     classes <- classify_parallel(context, prompts, labels)
#'     data.frame(text = texts, classes)
#'     generate_parallel(context, texts, chat = TRUE, system = "Summarise in three words.")
#'
#' The Python package that does the work is set up once: [install_llamaherd()].
#'
#' @section What to read for which need:
#' Getting a model
#' * [model_load()]: what a model may be called; downloads. [hardware_profile()],
#'   [list_cached_models()], [download_model()], [set_hf_token()].
#' * [model_optimize()], or `model_load(optimize = TRUE)`: the file that is fastest here.
#' * [quick_llama()]: a question without any of this.
#'
#' Labels
#' * [classify_parallel()]: the probability of each label. [calibrate_batch()] takes a model's
#'   preferences out.
#' * `generate_parallel(choices = )`: one of some texts. [vote()]: the majority of several samples.
#'
#' Data out of texts
#' * `generate_parallel(schema = )` with [type_object()]: a data frame with a column for each
#'   field; [schema_prompt()] tells the model.
#'
#' Texts
#' * [generate_parallel()], and [generate()] for a single prompt; `chat = TRUE` for chat models,
#'   [apply_chat_template()] to see what they get.
#'
#' Numbers
#' * [embed_parallel()]: vectors of texts. [score_parallel()]: the log-probability of given
#'   continuations, [perplexity()]: of texts.
#'
#' Many hours of work
#' * `generate_parallel(journal = )` goes on after a crash; [journal_read()] shows what is done.
#' * [last_results()]: what Ctrl-C left. [document_start()]: a log of a run with all hashes.
#'
#' From texts to estimates
#' * [codebook()] and [annotate_texts()] label a data frame by a question and its labels;
#'   [prompt_preview()] shows the prompt, [robustness()] how far labels depend on its words.
#' * [gold_sample()] draws texts for people to code, [validate()] compares, [agreement()] tells how
#'   far coders agree, [estimate()] corrects shares, means and regressions for what labels get
#'   wrong.
#' * [coverage_curve()]: which texts to leave to people. [plot()][plots] draws all of these,
#'   [report()] writes a page on how labels came about, [reproduce()] runs it again. A join or a CSV
#'   lost what a report needs? [coded_restore()].
#' * `vignette("llamaherd")` begins a row of short guides. They are there if the package was
#'   installed with `build_vignettes = TRUE`, an argument of `remotes::install_git()`.
#'
#' Several models
#' * [explore()], [annotation_sink_csv()], [intercoder_reliability()].
#'
#' Speed and memory
#' * [context_create()].
#'
#' Looking inside
#' * [tokenize()], [detokenize()], [model_metadata()].
#'
#' @section Python:
#' The package of the same name in Python does the work. It is looked for, in this order:
#' in the Python that this session already runs; in the one that the environment variable
#' `LLAMAHERD_PYTHON` or `RETICULATE_PYTHON` names; in the virtual environment
#' `r-llamaherd`, which [install_llamaherd()] makes; in the Python that
#' [reticulate::py_discover_config()] finds. Python starts when the first function needs
#' it, not when the package is attached.
#'
#' @section Conditions:
#' Every error has the class `llamaherd_error` and one of these, so that
#' [tryCatch()] can tell them apart:
#'
#' * `llamaherd_error_argument`: an argument has a value that it cannot take. The message
#'   names both.
#' * `llamaherd_error_python`: the Python side is missing or does not start.
#' * `llamaherd_error_model`: the model cannot be loaded or cannot do this.
#' * `llamaherd_error_context`: the context cannot be made, or was closed.
#' * `llamaherd_error_journal`: a journal is none, is damaged or cannot be written.
#' * `llamaherd_error_process`: this process was forked, as by `parallel::mclapply()`, from
#'   one that has loaded a model. Start processes anew, and load the model in each.
#' * `llamaherd_error_generation`: a prompt failed and [generate()] or
#'   `on_error = "stop"` was used. The condition's `results` has all that was done.
#' * `llamaherd_error_internal`: anything else; its `python` field has the traceback.
#'
#' Warnings have the class `llamaherd_warning` and one of these:
#' `llamaherd_warning_failed` (some prompts were not answered),
#' `llamaherd_warning_incomplete` (some answers were cut off),
#' `llamaherd_warning_text` (names that are no valid text) and
#' `llamaherd_warning_python` (a warning that Python gave).
#'
#' Ctrl-C during [generate_parallel()], [generate()], [embed_parallel()] or [annotate_texts()] is
#' an interrupt of class `llamaherd_interrupt`, whose `results` has all that was done; see
#' [last_results()].
#'
#' @importFrom rlang %||%
#' @keywords internal
"_PACKAGE"

# State of the session: `the$module` is the Python module, once it is loaded.
the <- new.env(parent = emptyenv())
