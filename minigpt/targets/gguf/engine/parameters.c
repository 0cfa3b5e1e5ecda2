/* The weights of a model as one vector of float32: from the model, and back to the model and its file. */
#include "learning.h"

/* A matrix, or a vector in the file. */
typedef struct {
    const Matrix *matrix;
    const float *vector;
    uint64_t size;
    float **place; /* where the address of the copy is kept */
} Parameter;

typedef struct {
    Parameter *all;
    uint32_t count;
    uint64_t size;
} Parameters;

static void add(Parameters *parameters, Parameter parameter)
{
    parameters->all[parameters->count++] = parameter;
    parameters->size += parameter.size;
}

static void add_matrix(Parameters *parameters, const Matrix *matrix, float **place)
{
    add(parameters, (Parameter){matrix, NULL, (uint64_t)matrix->rows * matrix->columns, place});
}

static void add_vector(Parameters *parameters, const float *vector, uint64_t size, float **place)
{
    *place = NULL;
    if (vector)
        add(parameters, (Parameter){NULL, vector, size, place});
}

static void add_dense(Parameters *parameters, const Dense *dense, Part *copy)
{
    add_matrix(parameters, &dense->weight, &copy->weight);
    add_vector(parameters, dense->bias, dense->weight.rows, &copy->bias);
}

static void add_norm(Parameters *parameters, const Norm *norm, uint32_t width, Part *copy)
{
    add_vector(parameters, norm->weight, width, &copy->weight);
    add_vector(parameters, norm->bias, width, &copy->bias);
}

static bool is_zero(const Dense *dense)
{
    for (uint32_t i = 0; dense->bias && i < dense->weight.rows; i++)
        if (dense->bias[i] != 0.0f)
            return false;
    return true;
}

static void add_projections(Parameters *parameters, const Attention *attention, BlockCopy *copy)
{
    const Dense *projections[] = {&attention->query, &attention->key, &attention->value};
    Part *copies[] = {&copy->query, &copy->key, &copy->value};
    /* Files for llama.cpp have zeros in place of biases that the model does not have. They stay zeros. */
    bool has_biases = !is_zero(projections[0]) || !is_zero(projections[1]) || !is_zero(projections[2]);
    for (uint32_t i = 0; i < 3; i++) {
        Dense dense = *projections[i];
        add_matrix(parameters, &projections[i]->weight, &copies[i]->weight);
        add_vector(parameters, has_biases ? dense.bias : NULL, dense.weight.rows, &copies[i]->bias);
    }
}

static void add_block(Parameters *parameters, const Model *model, const Block *block, BlockCopy *copy)
{
    const Attention *attention = &block->attention;
    add_projections(parameters, attention, copy);
    add_dense(parameters, &attention->output, &copy->output);
    add_norm(parameters, &attention->norm, model->embed_dim, &copy->norms[0]);
    add_norm(parameters, &block->ff_norm, model->embed_dim, &copy->norms[1]);
    add_vector(parameters, attention->query_norm, model->head_dim, &copy->query_norm);
    add_vector(parameters, attention->key_norm, model->head_dim, &copy->key_norm);
    add_vector(parameters, attention->value_mix, 1, &copy->value_mix);
    for (uint32_t i = 0; i < 2; i++)
        add_vector(parameters, block->convolutions[i], (uint64_t)model->taps * model->embed_dim, &copy->convolutions[i]);
    if (model->block == MODERN)
        add_dense(parameters, &block->gate, &copy->gate);
    add_dense(parameters, &block->up, &copy->up);
    add_dense(parameters, &block->down, &copy->down);
}

/* Lists the weights that are learned. All addresses of copies are in `copy`. */
static bool list_parameters(Parameters *parameters, const Model *model, ModelCopy *copy)
{
    enum { MOST_OF_MODEL = 7, MOST_OF_BLOCK = 23 };
    uint32_t most = MOST_OF_MODEL + MOST_OF_BLOCK * model->num_layers;
    *parameters = (Parameters){.all = allocate((uint64_t)most * sizeof(Parameter))};
    copy->blocks = allocate((uint64_t)model->num_layers * sizeof(BlockCopy));
    if (!parameters->all || !copy->blocks)
        return false;
    add_matrix(parameters, &model->tokens, &copy->tokens);
    add_vector(parameters, model->position == LEARNED ? model->positions : NULL,
        (uint64_t)model->max_len * model->embed_dim, &copy->positions);
    if (model->ngram_count)
        add_matrix(parameters, &model->ngram_table, &copy->ngrams);
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        add_block(parameters, model, &model->blocks[layer], &copy->blocks[layer]);
    add_norm(parameters, &model->final_norm, model->embed_dim, &copy->final_norm);
    if (!model->tie_embeddings)
        add_dense(parameters, &model->head, &copy->head);
    return true;
}

static Parameters parameters; /* those that are learned */

bool copy_weights(Learning *learning)
{
    if (!list_parameters(&parameters, learning->model, &learning->copy))
        return false;
    learning->size = parameters.size;
    learning->values = allocate(learning->size * 4);
    learning->gradients = allocate(learning->size * 4);
    if (!learning->values || !learning->gradients)
        return false;
    float *values = learning->values;
    for (uint32_t i = 0; i < parameters.count; values += parameters.all[i++].size) {
        const Parameter *parameter = &parameters.all[i];
        *parameter->place = values;
        if (parameter->vector)
            memcpy(values, parameter->vector, parameter->size * 4);
        else
            for (uint32_t r = 0; r < parameter->matrix->rows; r++)
                copy_row(parameter->matrix, r, values + (uint64_t)r * parameter->matrix->columns);
    }
    if (learning->model->tie_embeddings)
        learning->copy.head.weight = learning->copy.tokens;
    return true;
}

void write_weights(void)
{
    for (uint32_t i = 0; i < parameters.count; i++) {
        const Parameter *parameter = &parameters.all[i];
        if (parameter->vector)
            memcpy((float *)parameter->vector, *parameter->place, parameter->size * 4);
        else
            write_matrix(parameter->matrix, *parameter->place);
    }
}

bool write_tensors(const Model *model, const uint8_t *file, uint8_t *data)
{
    Parameters listed;
    ModelCopy copy = {0};
    if (!list_parameters(&listed, model, &copy))
        return false;
    for (uint32_t i = 0; i < listed.count; i++)
        if (listed.all[i].matrix)
            copy_tensor(listed.all[i].matrix, data + (listed.all[i].matrix->data - file));
    return true;
}
