#' llamaherd: many prompts at once on a local language model
#'
#' @description
#' Answers a vector of prompts with a language model that runs on your own machine. No data leaves
#' the machine, and no server is needed.
#'
#' @section Ten lines:
#'
#'     library(llamaherd)
#'     hardware_profile()  # models that this computer can run
#'     model <- model_load("hf:unsloth/Llama-3.2-3B-Instruct-GGUF")
#'     context <- context_create(model)
#'     texts <- c("I love it.", "It broke on the second day.", "It is blue.")
#'     prompts <- paste0("Review: ", texts, "\nSentiment:")
#'     labels <- c("positive", "negative", "neutral")
#'     classes <- classify_parallel(context, prompts, labels)
#'     data.frame(text = texts, classes)
#'     generate_parallel(context, texts, chat = TRUE, system = "Summarise in three words.")
#'
#' Install the Python package once, with [install_llamaherd()].
#'
#' @section Functions by topic:
#' Setting up
#' * [install_llamaherd()], [llamaherd_available()].
#' * `vignette("llamaherd")` and others exist if you set `build_vignettes = TRUE` in
#'   `remotes::install_git()`. They are also
#'   [online](https://github.com/llamaherd/llamaherd/tree/HEAD/r_package/vignettes).
#'
#' Models
#' * [model_load()] loads and downloads a model. [llamaherd_models()] and [hardware_profile()] say
#'   what fits this computer, [model_optimize()] finds the fastest file, [model_metadata()]
#'   describes one.
#' * [download_model()], [list_cached_models()], [set_hf_token()], [llamaherd_example_model()].
#' * [context_create()]: memory, threads, many machines.
#'
#' Answers
#' * [generate_parallel()], for one prompt [generate()], for a conversation [chat()].
#' * [sampling_options()], [thinking()], [vote()]: rare settings, thoughts, the majority of samples.
#' * [apply_chat_template()], [with_chat_date()], [tokenize()], [detokenize()]: what a model reads.
#' * [journal_read()] and [last_results()]: finished results after a crash or Ctrl-C.
#'   [document_start()]: a log with all hashes.
#'
#' Data from texts
#' * `generate_parallel(schema = )` with [type_object()]: a column for each field;
#'   [schema_prompt()] describes the fields in the prompt.
#'
#' Probabilities and vectors
#' * [classify_parallel()], [calibrate_batch()], [score_parallel()], [embed_parallel()].
#'
#' Coding by a codebook
#' * [codebook()], [ready_codebook()], [number_scale()], [prompt_preview()].
#' * [annotate_texts()] labels a data frame. [coded_spans()] lists marked passages,
#'   [coded_restore()] brings back the record that a join or a CSV file lost.
#' * [robustness()]: how much labels depend on the wording. [compare_pairs()]: texts in pairs.
#' * [gold_split()], [compare_codebooks()], [choose_examples()]: choosing a codebook.
#'
#' What people code
#' * [gold_size()], [gold_sample()], [code_texts()], [read_spans()]: how many texts, which, in a
#'   spreadsheet or a browser.
#' * [agreement()], [dawid_skene()]: how much coders agree.
#' * [validate()], [coverage_curve()]: how good the labels are, and which texts people should code.
#'
#' Estimates and reports
#' * [estimate()] corrects shares, means and regressions for wrong labels; [recalibrate()] corrects
#'   labels; [corrected()] gives columns and weights to other packages.
#' * [plot()][plots], [report()], [methods_text()], [reproduce()].
#'
#' Servers
#' * [server_start()], [connect()]: a model in another process or on another computer.
#'
#' Names of localLLM
#' * All on one page: [localLLM].
#'
#' @section Python:
#' This package calls the Python package of the same name. The R package uses the first Python in
#' this list that exists: the Python that this session already runs; the Python that the environment
#' variable `LLAMAHERD_PYTHON` or `RETICULATE_PYTHON` names; the virtual environment `r-llamaherd`,
#' which [install_llamaherd()] creates; the Python that [reticulate::py_discover_config()] finds.
#' Python starts when a function first needs it, not when the package is attached.
#'
#' @section Conditions:
#' Every error has the class `llamaherd_error` and one of these classes for [tryCatch()]:
#'
#' * `llamaherd_error_argument`: an argument has an invalid value. The message names the argument
#'   and the value. The condition has the fields `argument`, the name; `place`, a list of the
#'   indices (from 1) and names that lead to the invalid value inside the argument; and `code`, the
#'   kind of problem, such as `"out_of_range"`. Let scripts read these fields instead of the
#'   message. `place` and `code` are empty if R checked the argument before Python.
#' * `llamaherd_error_python`: the Python package is missing, or Python does not start.
#' * `llamaherd_error_model`: the model cannot be loaded, or does not support the request.
#' * `llamaherd_error_context`: the context cannot be created, or was closed.
#' * `llamaherd_error_journal`: a file is not a journal, is damaged or cannot be written.
#' * `llamaherd_error_process`: this process was forked, for example by `parallel::mclapply()`,
#'   after a model was loaded. Start new processes instead, and load the model in each.
#' * `llamaherd_error_generation`: a prompt failed and [generate()] or `on_error = "stop"` was used.
#'   The condition's `results` contains all finished results.
#' * `llamaherd_error_internal`: any other error; its `python` field has the traceback.
#'
#' Warnings have the class `llamaherd_warning` and one of these:
#' `llamaherd_warning_failed` (some prompts were not answered),
#' `llamaherd_warning_incomplete` (some answers were cut off),
#' `llamaherd_warning_text` (names with invalid encoding), `llamaherd_warning_record` (data lost the
#' record of how their labels were made) and `llamaherd_warning_python` (a warning from Python).
#'
#' Ctrl-C during [generate_parallel()], [generate()], [embed_parallel()] or [annotate_texts()]
#' signals an interrupt of class `llamaherd_interrupt`, whose `results` contains all finished
#' results; see [last_results()].
#'
#' @importFrom rlang %||%
#' @keywords internal
"_PACKAGE"

# State of the session: `the$module` is the loaded Python module, `the$functions` are functions of
# `the$called`, which is this module unless a test replaced it, and `the$told_cut` is TRUE once a
# cut answer of a single call was told of.
the <- new.env(parent = emptyenv())

#' A hundred short news texts
#'
#' Invented texts for trying out this package, with the name and the columns of the data set in
#' localLLM's tutorials. The texts are not from AG News. No text describes a real event or person,
#' and accuracy on these texts says nothing about accuracy on AG News.
#'
#' @format A data frame with 100 rows, 25 of each class, and columns of text:
#' * `class`: `"World"`, `"Sports"`, `"Business"` or `"Sci/Tech"`.
#' * `title`: a headline.
#' * `description`: a sentence.
#' @examples
#' data("ag_news_sample", package = "llamaherd")
#' table(ag_news_sample$class)
#' ag_news_sample[c(1, 26, 51, 76), ]
"ag_news_sample"
