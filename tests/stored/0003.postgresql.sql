--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: vector; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;


--
-- Name: EXTENSION vector; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON EXTENSION vector IS 'vector data type and ivfflat and hnsw access methods';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: checkpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.checkpoints (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    checkpoint_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    parent_id character varying(255) COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    run_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    raw_size bigint NOT NULL,
    stored_size bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: deltas; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deltas (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    kind character varying(16) NOT NULL,
    entry_key character varying(128) COLLATE pg_catalog."C",
    parent_seq bigint,
    base_seq bigint,
    depth integer NOT NULL,
    since_bytes bigint NOT NULL,
    raw_size bigint NOT NULL,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    label character varying(255) COLLATE pg_catalog."C",
    sort_key character varying(255) COLLATE pg_catalog."C",
    status smallint NOT NULL,
    search_text text,
    occurred_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    payload bytea NOT NULL
);
ALTER TABLE ONLY public.deltas ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: embeddings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.embeddings (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    field character varying(128) NOT NULL COLLATE pg_catalog."C",
    model character varying(128) NOT NULL COLLATE pg_catalog."C",
    part integer NOT NULL,
    dimensions integer NOT NULL,
    change bigint NOT NULL,
    vector public.vector NOT NULL
);
ALTER TABLE ONLY public.embeddings ALTER COLUMN vector SET STORAGE MAIN;


--
-- Name: memalchemy_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.memalchemy_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: store_items; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_items (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    version bigint NOT NULL,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    search_text text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    value bytea NOT NULL,
    lifetime bigint,
    field_terms text
);
ALTER TABLE ONLY public.store_items ALTER COLUMN value SET STORAGE EXTERNAL;


--
-- Name: threads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.threads (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    next_seq bigint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    head_id character varying(255) COLLATE pg_catalog."C",
    previous_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    forked_thread character varying(510) COLLATE pg_catalog."C",
    forked_seq bigint,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    deleted_at timestamp with time zone
)
WITH (fillfactor='70');


--
-- Data for Name: checkpoints; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '90700942e1f84cec8f23a53ac5f64882', NULL, 1, NULL, '{"step": 0, "colour": "blue"}', 62, 70, '2026-11-23 00:30:47.234886+00', '2026-11-23 00:30:47.234886+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'c41f3ec9ca2b4ab2b4eed931c547e3a9', '90700942e1f84cec8f23a53ac5f64882', 2, NULL, '{"step": 1, "colour": "blue"}', 115, 38, '2026-11-23 00:30:47.301389+00', '2026-11-23 00:30:47.301389+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '7090919d62414adf977f0ac963f4e765', 'c41f3ec9ca2b4ab2b4eed931c547e3a9', 3, NULL, '{"step": 2, "colour": "blue"}', 163, 44, '2026-11-23 00:30:47.327797+00', '2026-11-23 00:30:47.327797+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '81af1cad397a46e7ad26cbdd9d32de32', '7090919d62414adf977f0ac963f4e765', 4, NULL, '{"step": 3, "colour": "blue"}', 216, 27, '2026-11-23 00:30:47.330276+00', '2026-11-23 00:30:47.330276+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '769c9673b22a4a648e32e629ad0a03e6', '81af1cad397a46e7ad26cbdd9d32de32', 5, NULL, '{"step": 4, "colour": "blue"}', 264, 54, '2026-11-23 00:30:47.331687+00', '2026-11-23 00:30:47.331687+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '8ac11efc6d1245be94adbc8128212f2c', '769c9673b22a4a648e32e629ad0a03e6', 6, NULL, '{"step": 5, "colour": "blue"}', 317, 27, '2026-11-23 00:30:47.332953+00', '2026-11-23 00:30:47.332953+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '11ec6a6ab54b4dd4962b40e14f9c8b35', '8ac11efc6d1245be94adbc8128212f2c', 7, NULL, '{"step": 6, "colour": "blue"}', 365, 31, '2026-11-23 00:30:47.338493+00', '2026-11-23 00:30:47.338493+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '0691c97620b2491ab4d0485e311ded0d', '11ec6a6ab54b4dd4962b40e14f9c8b35', 8, NULL, '{"step": 7, "colour": "red"}', 418, 28, '2026-11-23 00:30:47.343341+00', '2026-11-23 00:30:47.343341+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '7be226f792eb45a5afeaca189ed933cc', '0691c97620b2491ab4d0485e311ded0d', 9, NULL, '{"step": 8, "colour": "blue"}', 466, 69, '2026-11-23 00:30:47.344584+00', '2026-11-23 00:30:47.344584+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'd4139605d1b34a829f21ea1cccaee930', '7be226f792eb45a5afeaca189ed933cc', 10, NULL, '{"step": 9, "colour": "blue"}', 519, 28, '2026-11-23 00:30:47.345586+00', '2026-11-23 00:30:47.345586+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '42074fbd160b4b54a45b3d9356853f97', 'd4139605d1b34a829f21ea1cccaee930', 11, NULL, '{"step": 10, "colour": "blue"}', 568, 35, '2026-11-23 00:30:47.346497+00', '2026-11-23 00:30:47.346497+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '6960041ed2854326b224a92091927249', '42074fbd160b4b54a45b3d9356853f97', 12, NULL, '{"step": 11, "colour": "blue"}', 622, 30, '2026-11-23 00:30:47.350521+00', '2026-11-23 00:30:47.350521+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '66a45ff0091a48f28410596cae7d1a9b', NULL, 1, NULL, '{}', 10, 16, '2026-11-23 00:30:47.351922+00', '2026-11-23 00:30:47.351922+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', 'ee06499183844e2ab3139408a97d3342', '66a45ff0091a48f28410596cae7d1a9b', 2, NULL, '{}', 15, 19, '2026-11-23 00:30:47.359104+00', '2026-11-23 00:30:47.359104+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', 'a8babf91672744cda7b54cf559b2186a', '66a45ff0091a48f28410596cae7d1a9b', 3, NULL, '{}', 16, 20, '2026-11-23 00:30:47.383586+00', '2026-11-23 00:30:47.383586+00');
INSERT INTO public.checkpoints VALUES ('stored', 'naïve/ключ/🔑', '/', 'first: 1', NULL, 1, NULL, '{}', 22, 28, '2026-11-23 00:30:47.409091+00', '2026-11-23 00:30:47.409091+00');
INSERT INTO public.checkpoints VALUES ('stored', 'forked', '/', '66a45ff0091a48f28410596cae7d1a9b', NULL, 1, NULL, '{}', 10, 16, '2026-11-23 00:30:47.351922+00', '2026-11-23 00:30:47.351922+00');


--
-- Data for Name: deltas; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deltas VALUES ('stored', 'long', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 62, 'zsplice2', -5220018858302444078, NULL, NULL, 0, 'user Message 0 about lighthouses', '2026-11-23 00:30:47.234886+00', '2026-11-23 00:30:47.234886+00', '\x029b72842337b5b838313db5f888e1c4a62545f939a94b4a8b538b9627e7e795a4e695ecf185482b18282426e5979628e464a6679464e403d514eb1d61292e492d38c2c80000');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 2, 'delta', NULL, NULL, 1, 1, 38, 115, 'zsplice2', 2164582719802592583, NULL, NULL, 0, 'assistant Message 1 about lighthouses', '2026-11-23 00:30:47.301389+00', '2026-11-23 00:30:47.301389+00', '\x93c09b0002000101300035010001c416029b04d1b132b1b838b3b82431af04439b21166d8c00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 3, 'delta', NULL, NULL, 1, 2, 82, 163, 'zsplice2', -3585803149665555811, NULL, NULL, 0, 'user Message 2 about lighthouses', '2026-11-23 00:30:47.327797+00', '2026-11-23 00:30:47.327797+00', '\x93c09b0002000101300065010001c41c029b0cd1b132b1b838b3b82431af04439b21166df8ac31c2a29e0900');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 4, 'delta', NULL, NULL, 3, 3, 109, 216, 'zsplice2', -2741357690802086913, NULL, NULL, 0, 'assistant Message 3 about lighthouses', '2026-11-23 00:30:47.330276+00', '2026-11-23 00:30:47.330276+00', '\x93c09b0002000101cc950035010001c40a029b42d01a632cda9801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 5, 'delta', NULL, NULL, 1, 4, 163, 264, 'zsplice2', -2379094212971022114, NULL, NULL, 0, 'user Message 4 about lighthouses', '2026-11-23 00:30:47.331687+00', '2026-11-23 00:30:47.331687+00', '\x93c09b00020001013000ccca010001c425029b0ad1b132b1b838b3b82431af04439b21166df8ac31c2a91e8f25c6245a6282453d0b00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 6, 'delta', NULL, NULL, 5, 5, 190, 317, 'zsplice2', 3051637832047253237, NULL, NULL, 0, 'assistant Message 5 about lighthouses', '2026-11-23 00:30:47.332953+00', '2026-11-23 00:30:47.332953+00', '\x93c09b0002000101ccfa0035010001c40a029b46d01a532cda5801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 7, 'delta', NULL, NULL, 5, 6, 221, 365, 'zsplice2', 5090166542866953870, NULL, NULL, 0, 'user Message 6 about lighthouses', '2026-11-23 00:30:47.338493+00', '2026-11-23 00:30:47.338493+00', '\x93c09b0002000101ccfa0065010001c40e029b4ed01a5312ad31c3a29e0d00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 8, 'delta', NULL, NULL, 7, 7, 249, 418, 'zsplice2', -418956110107325747, NULL, NULL, 0, 'assistant Message 7 about lighthouses', '2026-11-23 00:30:47.343341+00', '2026-11-23 00:30:47.343341+00', '\x93c09b0002000101cd015f0035010001c40a029b41d01a732cdad801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 9, 'delta', NULL, NULL, 1, 8, 318, 466, 'zsplice2', -8528191688743336810, NULL, NULL, 0, 'user Message 8 about lighthouses', '2026-11-23 00:30:47.344584+00', '2026-11-23 00:30:47.344584+00', '\x93c09b00020001013000cd0194010001c433029b09d1b132b1b838b3b82431af04439b21166df8ac31c2a91e8f25c6245a62428e25a6245a62468e25e6245a6281453d0700');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 10, 'delta', NULL, NULL, 9, 9, 346, 519, 'zsplice2', 6768299057751788907, NULL, NULL, 0, 'assistant Message 9 about lighthouses', '2026-11-23 00:30:47.345586+00', '2026-11-23 00:30:47.345586+00', '\x93c09b0002000101cd01c40035010001c40a029b45d01a4b2cda3801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 11, 'delta', NULL, NULL, 9, 10, 381, 568, 'zsplice2', -8632892903152981854, NULL, NULL, 0, 'user Message 10 about lighthouses', '2026-11-23 00:30:47.346497+00', '2026-11-23 00:30:47.346497+00', '\x93c09b0002000101cd01c40066010001c411029b4dd01a4be2acd90b8f456c71cf0500');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 12, 'delta', NULL, NULL, 11, 11, 411, 622, 'zsplice2', 4118456690018297778, NULL, NULL, 0, 'assistant Message 11 about lighthouses', '2026-11-23 00:30:47.350521+00', '2026-11-23 00:30:47.350521+00', '\x93c09b0002000101cd022a0036010001c40c029b83cb1e843e6c91cf0d00');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 10, 'zsplice2', -2092080262079905540, NULL, NULL, 0, 'root', '2026-11-23 00:30:47.351922+00', '2026-11-23 00:30:47.351922+00', '\x0092c40470617468c40691a4726f6f74');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 2, 'delta', NULL, NULL, 1, 1, 19, 15, 'zsplice2', -273524278017681899, NULL, NULL, 0, 'left', '2026-11-23 00:30:47.359104+00', '2026-11-23 00:30:47.359104+00', '\x93c09300000bc40b029b042697e4a4a6950000');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 3, 'delta', NULL, NULL, 1, 1, 20, 16, 'zsplice2', 4288877344409937235, NULL, NULL, 0, 'right', '2026-11-23 00:30:47.383586+00', '2026-11-23 00:30:47.383586+00', '\x93c09300000cc40c029b0426971665a667940000');
INSERT INTO public.deltas VALUES ('stored', 'naïve/ключ/🔑', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 22, 'zsplice2', 512250111599940896, NULL, NULL, 0, 'Unicode 漢 字', '2026-11-23 00:30:47.409091+00', '2026-11-23 00:30:47.409091+00', '\x0092c40474657874c412b1c39c6ec3af636f64652c20e6bca2e5ad97');
INSERT INTO public.deltas VALUES ('stored', 'forked', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 10, 'zsplice2', -2092080262079905540, NULL, NULL, 0, 'root', '2026-11-23 00:30:47.351922+00', '2026-11-23 00:30:47.351922+00', '\x0092c40470617468c40691a4726f6f74');


--
-- Data for Name: embeddings; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: memalchemy_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memalchemy_version VALUES ('0003');


--
-- Data for Name: store_items; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_items VALUES ('~', '/~memalchemy/', 'schema', '{"revision": "0003", "oldest_release": "0.1.0"}', 1, 'none', 0, NULL, '2026-11-23 00:30:46.984647+00', '2026-11-23 00:30:46.984647+00', NULL, '\x2d', NULL, NULL);


--
-- Data for Name: threads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.threads VALUES ('stored', 'long', '/', 13, 12, 1537555906219411748, '6960041ed2854326b224a92091927249', '42074fbd160b4b54a45b3d9356853f97', '{"step": 0, "colour": "blue"}', NULL, NULL, '2026-11-23 00:30:47.234886+00', '2026-11-23 00:30:47.350521+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'branched', '/', 4, 3, 4305220937495171428, 'a8babf91672744cda7b54cf559b2186a', 'ee06499183844e2ab3139408a97d3342', '{}', NULL, NULL, '2026-11-23 00:30:47.351922+00', '2026-11-23 00:30:47.383586+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'naïve/ключ/🔑', '/', 2, 1, 2757825011480408231, 'first: 1', NULL, '{}', NULL, NULL, '2026-11-23 00:30:47.409091+00', '2026-11-23 00:30:47.409091+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'deleted', '/', 2, 2, 910687538761424553, NULL, NULL, '{}', NULL, NULL, '2026-11-23 00:30:47.41598+00', '2026-11-23 00:30:47.41598+00', NULL, '2026-11-23 00:30:47.42254+00');
INSERT INTO public.threads VALUES ('stored', 'forked', '/', 2, 1, 714411659526378683, '66a45ff0091a48f28410596cae7d1a9b', NULL, '{}', 'branched', 1, '2026-11-23 00:30:47.442098+00', '2026-11-23 00:30:47.442098+00', NULL, NULL);


--
-- Name: memalchemy_version memalchemy_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.memalchemy_version
    ADD CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num);


--
-- Name: checkpoints pk_checkpoints; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, thread_id, namespace, checkpoint_id);


--
-- Name: deltas pk_deltas; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT pk_deltas PRIMARY KEY (tenant, thread_id, namespace, seq);


--
-- Name: embeddings pk_embeddings; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part);


--
-- Name: store_items pk_store_items; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_items
    ADD CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key);


--
-- Name: threads pk_threads; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.threads
    ADD CONSTRAINT pk_threads PRIMARY KEY (tenant, thread_id, namespace);


--
-- Name: checkpoints uq_checkpoints_tenant_thread_id_namespace_seq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT uq_checkpoints_tenant_thread_id_namespace_seq UNIQUE (tenant, thread_id, namespace, seq);


--
-- Name: ix_checkpoints_meta; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_meta ON public.checkpoints USING gin (meta jsonb_path_ops);


--
-- Name: ix_checkpoints_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_run_id ON public.checkpoints USING btree (tenant, run_id, thread_id) WHERE (run_id IS NOT NULL);


--
-- Name: ix_deltas_base_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_base_seq ON public.deltas USING btree (tenant, thread_id, namespace, base_seq) WHERE (base_seq IS NOT NULL);


--
-- Name: ix_deltas_search_text; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_search_text ON public.deltas USING gin (to_tsvector('simple'::regconfig, search_text)) WHERE (search_text IS NOT NULL);


--
-- Name: ix_embeddings_tenant_namespace_model_dimensions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON public.embeddings USING btree (tenant, namespace, model, dimensions);


--
-- Name: ix_store_items_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_expires_at ON public.store_items USING btree (expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: ix_store_items_search; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_search ON public.store_items USING gin ((((to_tsvector('simple'::regconfig, COALESCE(search_text, ''::text)) || to_tsvector('simple'::regconfig, COALESCE(field_terms, ''::text))) || array_to_tsvector(ARRAY[(((chr(31) || (tenant)::text) || chr(31)) || (namespace)::text)]))));


--
-- Name: ix_store_items_tenant_namespace_updated_at_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON public.store_items USING btree (tenant, namespace, updated_at, key);


--
-- Name: ix_threads_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_expires_at ON public.threads USING btree (expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: ix_threads_tenant_namespace_thread_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_tenant_namespace_thread_id ON public.threads USING btree (tenant, namespace, thread_id);


--
-- Name: uq_deltas_entry_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX uq_deltas_entry_key ON public.deltas USING btree (tenant, entry_key, thread_id, namespace) WHERE (entry_key IS NOT NULL);


--
-- Name: checkpoints fk_checkpoints_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT fk_checkpoints_threads FOREIGN KEY (tenant, thread_id, namespace) REFERENCES public.threads(tenant, thread_id, namespace) ON DELETE CASCADE;


--
-- Name: deltas fk_deltas_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT fk_deltas_threads FOREIGN KEY (tenant, thread_id, namespace) REFERENCES public.threads(tenant, thread_id, namespace) ON DELETE CASCADE;


--
-- Name: embeddings fk_embeddings_store_items; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT fk_embeddings_store_items FOREIGN KEY (tenant, namespace, key) REFERENCES public.store_items(tenant, namespace, key) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


